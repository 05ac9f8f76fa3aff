"""Result tables: their layouts, and the rows of exact results."""
