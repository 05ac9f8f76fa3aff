"""Tables of coefficients with Wald standard errors, tests and intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...data import check_level
from ...data.input_types import LabelsLike
from ...data.plottable_result_tables import ResultTable
from ...errors import DataError
from ...infer.errors_with_estimated_weights import WeightModel
from .coefficient_tables import coefficient_positions, coefficient_table
from .covariances import why_no_covariance
from .default_standard_errors import name_errors, name_missing_errors
from .fitted_model import FittedModel
from .setting_types import Kind

__all__ = ["wald_intervals", "wald_summary"]


def wald_summary(
    model: FittedModel,
    level: float = 0.95,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
    weight_model: WeightModel | None = None,
) -> ResultTable:
    """Tabulate the coefficients; standard errors under a Laplace prior are NaN.

    The printed table notes it in its corner, and ``attrs["note"]`` explains it.
    """
    check_level(level)
    shrunken = model._has_sparse_prior()
    estimate = np.asarray(model._coefficients())
    if shrunken:
        se = np.full(len(estimate), np.nan)
    else:
        V = model.vcov(kind, cluster, weight_model)
        se, kind = np.sqrt(np.diag(V.to_numpy())), V.attrs["errors"]
    table = coefficient_table(
        estimate, se, model._coefficient_names(), level, model._residual_df(), model._ratio
    )
    if shrunken:
        return name_missing_errors(table, model.prior_)
    return name_errors(table, str(kind), model)


def wald_intervals(
    model: FittedModel,
    params: str | int | Sequence[str | int] | None,
    level: float,
    kind: Kind | None,
    cluster: LabelsLike | None,
    weight_model: WeightModel | None = None,
) -> ResultTable:
    """Compute intervals of some coefficients; refuse under a Laplace prior."""
    chosen = coefficient_positions(params, model._coefficient_names(), model._fixed)
    if model._has_sparse_prior():
        raise DataError(why_no_covariance(model.prior_))
    table = wald_summary(model, level, kind, cluster, weight_model)
    return table[["lower", "upper"]].iloc[chosen]
