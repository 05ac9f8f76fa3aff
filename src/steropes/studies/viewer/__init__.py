"""A page on which released results of several databases are searched, sorted and compared."""
