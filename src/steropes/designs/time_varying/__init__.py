"""Effects of treatments that change over time, by weights or by models of outcomes."""

from steropes.designs.time_varying.iterated_g_computation import iterated_g_computation
from steropes.designs.time_varying.marginal_structural_model import marginal_structural_model

__all__ = ["iterated_g_computation", "marginal_structural_model"]
