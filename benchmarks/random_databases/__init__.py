"""Random OMOP databases with the oddities of real ones, against a slow and obvious reference."""
