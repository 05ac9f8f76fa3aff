"""Specification, runner and store: studies from a file to their exact results."""
