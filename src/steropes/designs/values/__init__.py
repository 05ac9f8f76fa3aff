"""Plain values of all designs: arms, dates, ages, ratios, profiles, checks of arrays."""
