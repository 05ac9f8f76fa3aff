"""Case series from tables of events, exposures and observation."""
