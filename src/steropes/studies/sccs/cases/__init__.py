"""Cases, eras and windows of case series, read from a database."""
