"""The quantile of the standard normal distribution on which 95 % intervals rest."""

from __future__ import annotations

from scipy.special import ndtri

__all__ = ["Z"]

Z = float(ndtri(0.975))
