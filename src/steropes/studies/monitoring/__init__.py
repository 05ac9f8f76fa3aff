"""Sequential monitoring of the releases of a study, one for each look at accruing data."""
