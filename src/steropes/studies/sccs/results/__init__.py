"""Results of case series before small counts are suppressed: fits, diagnostics and tables."""
