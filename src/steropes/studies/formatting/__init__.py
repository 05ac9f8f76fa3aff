"""Released numbers and texts as pages and terminals show them."""
