"""Proximal Newton steps with a line search, damping and a growing working set."""
