"""Meta-analyses of result archives of several databases."""
