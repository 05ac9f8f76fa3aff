"""The solver of penalised likelihoods: proximal Newton steps with certificates of optimality."""

from .fit_result import Fit
from .proximal_newton.newton_batch import Batch
from .shared_working_set_and_hessian import Common

__all__ = ["Batch", "Common", "Fit"]
