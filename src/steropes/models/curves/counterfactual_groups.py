"""Populations of a standardisation: everyone with a covariate set to each of its values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ...backends import host_backend
from ...backends.backend_interface import Backend
from ...data import check_weights
from ...data.input_types import LabelsLike, VectorLike
from ...data.vector_checks import check_vector
from ...design_matrix import Design
from ...errors import DataError
from ...infer.baseline_hazard_variance import HazardWithVariance
from ...infer.standardized_curves import Population
from ..fitting.coefficient_tables import coefficient_positions
from ..fitting.fitted_variables import FittedVariable, fitted_variable
from ..fitting.fixed_and_initial_coefficients import FixedCoefficients
from ..fitting.proportional_hazards import ProportionalHazardsModel
from ..fitting.setting_types import MatrixLike
from ..fitting.variable_summaries import MAX_GROUPS
from ..formulas.formula_data_types import as_pandas_table
from ..formulas.formula_parsing import Formula

__all__ = [
    "Grouping",
    "GroupingColumn",
    "active_intervals",
    "columns_of_coefficients",
    "group_populations",
    "people_to_average",
]

# Names of columns of the tables, which the column of groups cannot have.
COLUMNS = {
    "reference", "time", "survival", "incidence", "mean", "difference", "ratio", "se", "lower",
    "upper",
}  # fmt: skip

# A column by name or position, or X of each group by label.
Grouping = str | int | Mapping[Any, MatrixLike] | None


def formula_column(by: str | int, data: pd.DataFrame, formula: Formula) -> str | None:
    """Find the column of a table that ``by``, a name or position, refers to.

    Returns
    -------
    str or None
        None for a name that is not in the formula.

    Raises
    ------
    DataError
        If the position is not in the table, or its column not in the formula.
    """
    known = {str(name) for name in formula.spec.required_variables}
    if isinstance(by, str):
        return by if by in known else None
    name = column_of_table(by, data)
    if name not in known:
        raise DataError(f"Column {name!r}, at position {by} of X, is not in the formula.")
    return name


def column_of_table(by: str | int, data: pd.DataFrame) -> str:
    """Return the name of the column of a table that ``by``, a name or position, refers to.

    Raises
    ------
    DataError
        If the table has no such column.
    """
    columns = [str(name) for name in data.columns]
    if isinstance(by, str) and by in columns:
        return by
    whole = isinstance(by, int | np.integer) and not isinstance(by, bool)
    if not whole or not -len(columns) <= int(by) < len(columns):
        raise DataError(
            f"by must be the name or position of one of the {len(columns)} columns of X, or a "
            f"mapping from labels to tables, not {by!r}."
        )
    return columns[int(by)]


def tables_by_value(
    name: str, data: pd.DataFrame, known: FittedVariable | None
) -> dict[Hashable, pd.DataFrame]:
    """Copy the table with a column set to each of its values.

    Parameters
    ----------
    name : str
        A column without missing values.
    known : FittedVariable, optional
        Its values in the fit; by default those of the data define the groups.

    Returns
    -------
    dict of DataFrame
        By value, in ascending order or that of the labels.

    Raises
    ------
    DataError
        If the column has too many values for groups.
    """
    column = data[name]
    if known is not None:
        if known.labels:
            known.refuse_unseen(name, column)
        groups = known.groups(name, column)
        return {label: data.assign(**{name: same}) for label, same in groups.items()}
    values = column.drop_duplicates()
    if len(values) > MAX_GROUPS:
        raise DataError(
            f"Column {name!r} has {len(values)} values, too many for groups. Give the values that "
            "are meant: by={'low': data_low, 'high': data_high}."
        )
    # Repeating a row of the column preserves its type, including categories.
    out: dict[Hashable, pd.DataFrame] = {}
    for value in values.sort_values():
        row = int(np.flatnonzero(np.asarray(column == value))[0])
        same = column.iloc[np.full(len(column), row)].set_axis(data.index)
        label = value.item() if isinstance(value, np.generic) else value
        out[label] = data.assign(**{name: same})
    return out


def people_to_average(
    model: ProportionalHazardsModel,
    state: HazardWithVariance,
    X: MatrixLike,
    times: ArrayLike | None,
    by: Grouping,
    sample_weight: VectorLike | None,
    strata: LabelsLike | None,
    offset: VectorLike | None,
) -> PeopleToAverage:
    """Read the arguments of a standardisation, those of `CoxCurves.standardized_survival`.

    Raises
    ------
    DataError
        If times are not positive, or no one of a stratum was under observation.
    """
    eta = model._linear_predictors(X, offset)
    n = len(eta)
    codes, weight = model._stratum_codes(X, strata, n), check_weights(sample_weight, n)
    times = model.unique_times_[model.unique_times_ > 0] if times is None else times
    at = np.unique(check_vector(np.atleast_1d(times), None, "times"))
    if not len(at):
        raise DataError("times is empty; an average is at one time at least.")
    of = np.unique(codes[weight > 0])
    last = float(model._last_seen[of].min())
    if last == -np.inf:
        row = int((codes == of[model._last_seen[of] == last][0]).argmax())
        raise DataError(
            f"In the fit nobody of row {row}'s stratum has weight, so that it has no curve. "
            "Leave such strata out of X."
        )
    if at[0] <= 0:
        raise DataError(f"times must be above 0; {at[0]:g} is not.")
    name, groups = _populations(model, X, by, offset, eta, state)
    known = at[at <= last] if at[0] <= last else np.array([last])
    return PeopleToAverage(groups, name, codes, weight, at, known)


def _populations(
    model: ProportionalHazardsModel,
    X: MatrixLike,
    by: Grouping,
    offset: VectorLike | None,
    eta: np.ndarray,
    state: HazardWithVariance,
) -> tuple[str, dict[Hashable, Population]]:
    """Set up the population of each group, and the name of the column of groups."""
    n, p = len(eta), len(state.center)
    by, given = _groups_by(model, X, by)
    if given is not None:
        designs = {label: model._check_new(x) for label, x in given.items()}
        etas = {label: model._linear_predictors(x, offset) for label, x in given.items()}
        if any(len(x) != n for x in etas.values()):
            raise DataError(f"Each matrix of by must have the {n} rows of X.")
    else:
        designs, etas = {None: model._check_new(X)}, {None: eta}
    backend = host_backend(model.n_jobs)
    column = None if by is None or given is not None else _grouping_column(model, X, by, backend)
    source, acts = columns_of_coefficients(model, p), active_intervals(model, p)
    groups = group_populations(designs, etas, column, source, acts, state, backend)
    return by if isinstance(by, str) and by not in COLUMNS else "group", groups


def columns_of_coefficients(model: ProportionalHazardsModel, p: int) -> np.ndarray:
    """Return the column of X of each of p coefficients."""
    return np.arange(p) if model._effects is None else model._effects.source


def active_intervals(model: ProportionalHazardsModel, p: int) -> np.ndarray:
    """Return the factor of each coefficient in each interval of time, zero if none, (p, Q)."""
    effects = model._effects
    if effects is None:
        return np.ones((p, 1), bool)
    q = np.arange(effects.Q)
    acts = (effects.first[:, None] <= q) & (q <= effects.last[:, None])
    return acts if effects.values is None else acts * effects.values


def _groups_by(
    model: ProportionalHazardsModel, X: MatrixLike, by: Grouping
) -> tuple[str | int | None, Mapping[Hashable, MatrixLike] | None]:
    """Return the name of the groups, and X of each group unless they are values of a column."""
    if isinstance(by, Mapping):
        return None, by
    one = isinstance(by, str | Integral) and not isinstance(by, bool | np.bool_)
    if by is not None and not one:
        raise DataError(
            f"by is the name or position of one column, or a mapping, not {by!r}; for several "
            "columns give by={'label': X as it would be, …}."
        )
    if by is not None and model._is_labelled_table(X):
        model._check_columns(X)
        data = as_pandas_table(X)
        column = column_of_table(by, data)
        known = fitted_variable(model, column, -1, "labels")
        return column, tables_by_value(column, data, known)
    if by is None or not model._is_formula_table(X):
        return by, None
    data = as_pandas_table(X)
    name = formula_column(by, data, model._formula)
    if name is None:
        return by, None
    known = fitted_variable(model, name, -1, "formula")
    return name, tables_by_value(name, data, known)


def _grouping_column(
    model: ProportionalHazardsModel, X: MatrixLike, by: str | int, backend: Backend
) -> GroupingColumn:
    """Find the column of X, among all columns that the user gave, that ``by`` refers to."""
    design = model._check_columns(X)
    if model._effects is None:
        effects = model._estimated[:, None]
    else:
        effects = model._effects.by_interval(model._estimated, design.p)
    j = coefficient_positions(by, design.names)[0]
    known = fitted_variable(model, design.names[j], j, "matrix")
    return GroupingColumn.of(j, design, model._fixed, effects, backend, known)


class PeopleToAverage(NamedTuple):
    """Populations with the strata and weights of their rows, and the times of an average.

    ``known`` are the ``times`` at which all strata were under observation.
    """

    groups: dict[Hashable, Population]
    name: str
    codes: np.ndarray
    weight: np.ndarray
    times: np.ndarray
    known: np.ndarray


def group_populations(
    designs: dict[Hashable, Design],
    etas: dict[Hashable, np.ndarray],
    column: GroupingColumn | None,
    source: np.ndarray,
    acts: np.ndarray,
    state: HazardWithVariance,
    backend: Backend,
) -> dict[Hashable, Population]:
    """Set up the population of each group, by label.

    Parameters
    ----------
    designs, etas : dict
        By label: the columns of X with estimated coefficients, and the linear predictors
        (n, Q). With a ``column`` there is one of each.
    column : GroupingColumn, optional
        The column with values that define the groups.
    source : (p,) int array
        The column of the designs of each coefficient.
    acts : (p, Q) bool array
        Whether a coefficient is in effect in an interval of time.
    """

    def total_of(
        design: Design, given: dict[int, float]
    ) -> Callable[[np.ndarray, int], np.ndarray]:
        """Return the function that sums rows of columns, with some columns at given values."""

        def total(R: np.ndarray, q: int) -> np.ndarray:
            whole = R.sum(axis=0)
            padded = np.zeros((len(R), backend.lanes(R.shape[1])))
            padded[:, : R.shape[1]] = R
            of_x = design.rmatmul(padded, backend)[:, : R.shape[1]] * design.scale[:, None]
            of_x += design.center[:, None] * whole
            for j, value in given.items():
                of_x[j] = value * whole
            return acts[:, [q]] * (of_x[source] - state.center[:, None] * whole)

        return total

    if column is None:
        return {
            label: Population(etas[label] - state.center_predictor, total_of(design, {}))
            for label, design in designs.items()
        }
    ((label, design),) = designs.items()
    groups: dict[Hashable, Population] = {}
    for value in column.values:
        eta = etas[label] + np.outer(value - column.x, column.effect) - state.center_predictor
        given = {} if column.place is None else {column.place: float(value)}
        groups[_plain(value)] = Population(eta, total_of(design, given))
    return groups


@dataclass(frozen=True)
class GroupingColumn:
    """A column with values that define groups, each assigned to everyone in turn.

    Attributes
    ----------
    x : (n,) array
        Its values.
    values : array
        Values that define groups: those of the fit, if they are known.
    effect : (Q,) array
        Its effect in each interval of time.
    place : int or None
        Its position among the columns with estimated coefficients; None if its coefficient is
        fixed.
    """

    x: np.ndarray
    values: np.ndarray
    effect: np.ndarray
    place: int | None

    @classmethod
    def of(
        cls,
        j: int,
        design: Design,
        fixed: FixedCoefficients | None,
        effects: np.ndarray,
        backend: Backend,
        known: FittedVariable | None,
    ) -> GroupingColumn:
        """Read the column at a position among all columns of X.

        Parameters
        ----------
        effects : (k, Q) array
            Effect of each column with an estimated coefficient, in each interval of time.

        Raises
        ------
        DataError
            If the column has too many values.
        """
        unit = np.zeros((design.p, 1))
        unit[j] = design.scale[j]
        x = design.matmul(unit, backend)[:, 0] + design.center[j]
        values = np.unique(x) if known is None else np.array(known.values)
        if not 0 < len(values) <= MAX_GROUPS:
            count = max(len(np.unique(x)), MAX_GROUPS + 1)
            raise DataError(
                f"Column {design.names[j]!r} has {count} values, too many for groups. Give "
                "the values that are meant: by={'low': X_low, 'high': X_high}."
            )
        if fixed is None:
            return cls(x, values, effects[j], j)
        row = int(fixed.row[j])
        if row < 0:
            return cls(x, values, np.full(effects.shape[1], fixed.values[j]), None)
        return cls(x, values, effects[row], row)


def _plain(value: float) -> float | int:
    """Convert whole numbers to integers, for labels."""
    return int(value) if float(value).is_integer() else float(value)
