"""Fits of one model to many outcomes, and under many priors."""
