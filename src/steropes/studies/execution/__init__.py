"""Runs of studies: the store of results, and the continuation of interrupted runs."""
