"""What all designs share: dates, ages, estimands, ratios, checks of input and parts of pages."""
