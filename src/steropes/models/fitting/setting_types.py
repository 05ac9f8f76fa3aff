"""Types of the settings of estimators, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ...data.input_types import TableLike
from ...design_matrix import Design
from ...fit.shards import ShardedDesign
from ...likelihoods.cox_risk_set_sums import Ties
from ...select import CrossValidation, InformationCriterion
from ...select.folds import Seed

__all__ = [
    "WALD_KINDS",
    "Chooser",
    "ClassWeight",
    "Device",
    "IntervalMethod",
    "Kind",
    "MatrixLike",
    "Seed",
    "Solver",
    "StepTimes",
    "SummaryKind",
    "Ties",
    "TimeFunctions",
    "VaryingEffects",
]

# Covariates as users pass them.
MatrixLike = ArrayLike | sparse.spmatrix | sparse.sparray | TableLike | Design | ShardedDesign
# Vectors of rows that a formula, or an argument of ``fit`` with the name of a column, can define.
Solver = Literal["newton", "ccd"]
# Methods that choose the variance of a prior.
Chooser = CrossValidation | InformationCriterion
# Weights of the classes of an outcome, by label.
ClassWeight = Literal["balanced"] | Mapping[Any, float] | None
Device = Literal["cpu", "cuda", "auto", "torch-cpu"]
# Kinds of standard errors.
Kind = Literal["model", "robust", "HC0", "HC1", "HC2", "HC3", "jackknife"]
WALD_KINDS: tuple[Kind, ...] = get_args(Kind)
SummaryKind = Literal[
    "model", "robust", "HC0", "HC1", "HC2", "HC3", "jackknife", "profile", "bootstrap",
]  # fmt: skip
# Methods for confidence intervals.
IntervalMethod = Literal[
    "wald", "model", "robust", "HC0", "HC1", "HC2", "HC3", "jackknife", "profile", "bootstrap",
]  # fmt: skip
# Cut points by name or position of a column.
FunctionOfTime = Literal["log"] | Callable[[np.ndarray], Any]
StepTimes = (
    Mapping[str, Sequence[float] | FunctionOfTime]
    | Mapping[int, Sequence[float] | FunctionOfTime]
    | Mapping[Any, np.ndarray]
)
# The degree of a polynomial, or functions of the number of the interval.
TimeFunctions = int | Callable[[np.ndarray], Any] | Sequence[Callable[[np.ndarray], Any]]
VaryingEffects = TimeFunctions | Mapping[str, TimeFunctions] | Mapping[int, TimeFunctions]
