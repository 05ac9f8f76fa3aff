"""Validation of the settings of estimators."""

from __future__ import annotations

from numbers import Integral, Real
from typing import get_args

import numpy as np

from ...backends import unknown_device
from ...backends.thread_pool import count_threads
from ...errors import DataError
from ...priors import Prior
from ...select.folds import random_generator
from .fitted_model import FittedModel
from .setting_types import Device, Solver
from .sklearn_base_types import BaseEstimator

__all__ = ["check_settings", "numerical_settings"]

SOLVERS = get_args(Solver)
DEVICES = get_args(Device)


def check_settings(model: FittedModel) -> None:
    """Refuse invalid values of the settings that all estimators have.

    Raises
    ------
    DataError
        The message names the setting.
    """
    if model.solver not in SOLVERS:
        raise DataError(f"solver must be 'newton' or 'ccd', not {model.solver!r}.")
    if not (_real(model.tol) and 0 < model.tol < np.inf):
        raise DataError(f"tol must be positive and finite, such as 1e-8, not {model.tol!r}.")
    if not (_whole(model.max_iter) and model.max_iter >= 1):
        raise DataError(f"max_iter must be at least 1 and whole, not {model.max_iter!r}.")
    if model.prior is not None and not isinstance(model.prior, Prior):
        raise DataError(
            f"prior must be None or a prior such as steropes.Laplace(), not {model.prior!r}."
        )
    if not isinstance(model.device, str) or model.device not in DEVICES:
        raise DataError(unknown_device(model.device))
    if not (isinstance(model.verbose, bool | np.bool_) or _whole(model.verbose)):
        raise DataError(f"verbose must be a whole number or a bool, not {model.verbose!r}.")
    intercept = getattr(model, "fit_intercept", True)
    if not isinstance(intercept, bool | np.bool_):
        raise DataError(f"fit_intercept must be True or False, not {intercept!r}.")
    if isinstance(model.n_jobs, bool):
        raise DataError(f"n_jobs must be None, -1 or at least 1, not {model.n_jobs!r}.")
    count_threads(model.n_jobs)
    random_generator(model.random_state)


def numerical_settings(model: BaseEstimator) -> dict[str, object]:
    """Return the settings that affect results: all except ``n_jobs`` and ``verbose``."""
    return {k: v for k, v in model.get_params().items() if k not in ("n_jobs", "verbose")}


def _real(x: object) -> bool:
    """Return whether x is a real number and not a boolean."""
    return isinstance(x, Real) and not isinstance(x, bool)


def _whole(x: object) -> bool:
    """Return whether x is an integer and not a boolean."""
    return isinstance(x, Integral) and not isinstance(x, bool)
