"""How often intervals hold the truth, and how often they leave zero out: see `__main__`."""
