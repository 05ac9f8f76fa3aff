"""Survival and incidence curves of a fitted model, as ``model.curves``."""
