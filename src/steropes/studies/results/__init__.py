"""Result tables before suppression of small counts: estimates, calibration and shared tables."""
