"""Dispatch of Hessians by the kind of curvature and the layout of the rows."""

from __future__ import annotations

from typing import NoReturn, assert_never

from ...backends.backend_interface import Array
from ...design_matrix.design_interfaces import ColumnsByRows
from ...likelihoods.hessian_structures import (
    ChannelCurvature,
    Curvature,
    GroupedCurvature,
    OperatorCurvature,
    ProfiledCurvature,
    SubdistributionCurvature,
)
from . import (
    grouped_hessian,
    multi_predictor_hessian,
    operator_hessian,
    profiled_hessian,
    step_effect_hessian,
    subdistribution_hessian,
)

__all__ = ["diagonal", "hessian"]


def hessian(
    rows: ColumnsByRows, curvature: Curvature, first: int = 0, rough: bool = False
) -> Array:
    """Compute X' H_η X for the columns of some rows, (k, k).

    Parameters
    ----------
    first : int
        The first row needed; earlier rows are undefined.
    rough : bool
        Whether it may be rounded to single precision.
    """
    match curvature:
        case GroupedCurvature():
            if rows.layout == "rows":
                return grouped_hessian.hessian(rows, curvature, first, rough)
            if rows.layout == "pieces":
                return step_effect_hessian.hessian(rows, curvature, first)
        case SubdistributionCurvature():
            if rows.layout == "rows":
                return subdistribution_hessian.hessian(rows, curvature, first)
        case ChannelCurvature():
            if rows.layout == "channels":
                return multi_predictor_hessian.hessian(rows, curvature, first)
        case OperatorCurvature():
            return operator_hessian.hessian(rows, curvature, first)
        case ProfiledCurvature():
            if rows.layout == "rows":
                return profiled_hessian.hessian(rows, curvature, first)
        case _:
            assert_never(curvature)
    _refuse(rows, curvature)


def diagonal(rows: ColumnsByRows, curvature: Curvature) -> Array:
    """Compute the diagonal of `hessian`, (k,), in one pass over the rows where that is possible."""
    match curvature:
        case GroupedCurvature():
            if rows.layout == "rows":
                return grouped_hessian.diagonal(rows, curvature)
            if rows.layout == "pieces":
                return step_effect_hessian.diagonal(rows, curvature)
        case SubdistributionCurvature():
            if rows.layout == "rows":
                return subdistribution_hessian.diagonal(rows, curvature)
        case ChannelCurvature():
            if rows.layout == "channels":
                return rows.diagonal(curvature.v)
        case OperatorCurvature():
            return operator_hessian.diagonal(rows, curvature)
        case ProfiledCurvature():
            if rows.layout == "rows":
                return profiled_hessian.diagonal(rows, curvature)
        case _:
            assert_never(curvature)
    _refuse(rows, curvature)


def _refuse(rows: ColumnsByRows, curvature: Curvature) -> NoReturn:
    """Raise an error for a kind of curvature without code for this layout."""
    raise NotImplementedError(f"{type(curvature).__name__} over rows laid out as {rows.layout!r}")
