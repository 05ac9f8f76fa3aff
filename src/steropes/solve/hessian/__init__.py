"""From a likelihood's curvature in η to the Hessian X' H_η X of some columns: one file a kind.

`hessian` and `diagonal` look at what kind the likelihood declares
(`steropes.likelihoods.curvature`) and how its rows are laid out (`steropes.design.face`).
"""

from .dispatch import diagonal, hessian
from .profiled import cross, pooled_groups

__all__ = ["cross", "diagonal", "hessian", "pooled_groups"]
