"""From a likelihood's curvature in η to the Hessian X' H_η X of some columns: one file a kind.

`hessian` and `diagonal` look at what kind the likelihood declares
(`steropes.likelihoods.curvature`) and how its rows are laid out (`steropes.design.face`).
"""

from .dispatch import diagonal, hessian
from .eta import centred, eta_product
from .profiled import cross, pooled_groups

__all__ = ["centred", "cross", "diagonal", "eta_product", "hessian", "pooled_groups"]
