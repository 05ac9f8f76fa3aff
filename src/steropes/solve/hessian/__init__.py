"""From a likelihood's curvature in η to the Hessian X' H_η X of some columns: one file a kind.

`hessian` and `diagonal` look at what kind the likelihood declares
(`steropes.likelihoods.curvature`) and how its rows are laid out (`steropes.design.face`).
"""

from .curvature_kinds import diagonal, hessian
from .curvature_products import centred, eta_product
from .profiled_hessian import cross, pooled_groups

__all__ = ["centred", "cross", "diagonal", "eta_product", "hessian", "pooled_groups"]
