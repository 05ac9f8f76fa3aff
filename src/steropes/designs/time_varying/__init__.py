"""Effects of treatments that change over time, by weights or by models of outcomes."""

from steropes.designs.time_varying.iterated_g_computation import iterated_g_computation
from steropes.designs.time_varying.marginal_structural_model import marginal_structural_model
from steropes.designs.time_varying.parametric_g_formula import parametric_g_formula

__all__ = ["iterated_g_computation", "marginal_structural_model", "parametric_g_formula"]
