"""Hessians X' H_η X of some columns from a likelihood's curvature in η, one module for each kind.

`hessian` and `diagonal` dispatch on the kind that the likelihood declares
(`steropes.likelihoods.hessian_structures`) and on the layout of the rows
(`steropes.design_matrix`).
"""

from .curvature_products import centred, device_product, eta_product
from .hessian_dispatch import diagonal, hessian
from .profiled_hessian import cross, pooled_groups

__all__ = [
    "centred",
    "cross",
    "device_product",
    "diagonal",
    "eta_product",
    "hessian",
    "pooled_groups",
]
