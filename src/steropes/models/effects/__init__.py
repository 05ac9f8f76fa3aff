"""Effects of variables and predictions with standard errors, as ``model.effects``."""
