"""The estimators of generalised linear, survival, conditional and pooled models."""
