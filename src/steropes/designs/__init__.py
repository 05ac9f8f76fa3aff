"""Study designs on tables in memory, without a database."""
