"""Parts of all designs: dates, ages, estimands, ratios, checks of input and parts of pages."""
