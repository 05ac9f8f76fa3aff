"""Disclosure control of the results of each study design, the only way out of a site."""
