"""Pages, figures, papers and terminal output of case series."""
