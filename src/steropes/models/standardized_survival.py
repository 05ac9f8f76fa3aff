"""Standardised survival: averages, differences, ratios and restricted means."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..backends.protocols import Backend
from ..design import Design
from ..errors import DataError
from ..infer.hazard_with_variance import HazardWithVariance
from ..infer.standardized_curves import Averages, Population, standardized_averages
from ..infer.survival_standard_errors import log_log_limits
from .coefficient_tables import coefficient_positions, critical_value
from .fixed_coefficients import FixedCoefficients

__all__ = [
    "COLUMNS",
    "GroupingColumn",
    "StandardizedSurvival",
    "extend_to_times",
    "group_populations",
    "standardize",
]

# Number of rows of each table that are printed.
MAX_ROWS = 20
# A covariate with more values than this cannot define groups.
MAX_GROUPS = 20
# Names of columns of the tables, which the column of groups cannot have.
COLUMNS = {
    "reference", "time", "survival", "mean", "difference", "ratio", "se", "lower", "upper",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class StandardizedSurvival:
    """Survival averaged over people, with comparisons of groups.

    Every table has ``time``, ``se``, ``lower``, ``upper``. With groups the first column is the
    group, and tables of differences and ratios have the group ``reference`` too.

    Attributes
    ----------
    survival : DataFrame
        The average in the column ``survival``.
    restricted_means : DataFrame
        The average survival time up to ``time`` in the column ``mean``.
    differences : DataFrame or None
        Differences of survival in the column ``difference``; None without groups.
    ratios : DataFrame or None
        Ratios of survival in the column ``ratio``; None without groups.
    risk_ratios : DataFrame or None
        Ratios of one minus survival in the column ``ratio``, missing before the first event, when
        all risks are zero; None without groups.
    restricted_mean_differences : DataFrame or None
        Differences of restricted means in the column ``difference``; None without groups.

    See Also
    --------
    CoxRegression.standardized_survival : Compute these tables.

    Examples
    --------
    >>> import pandas as pd, steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> X = pd.DataFrame({"drug": [0.0, 1.0, 0.0, 0.0, 1.0]})
    >>> model = steropes.CoxRegression().fit(X, y)
    >>> averages = model.standardized_survival(X, times=[4], by="drug")
    >>> averages.survival[["drug", "time", "survival"]].round(2).to_numpy().tolist()
    [[0.0, 4.0, 0.57], [1.0, 4.0, 0.73]]
    """

    survival: pd.DataFrame
    restricted_means: pd.DataFrame
    differences: pd.DataFrame | None = None
    ratios: pd.DataFrame | None = None
    risk_ratios: pd.DataFrame | None = None
    restricted_mean_differences: pd.DataFrame | None = None

    def __repr__(self) -> str:
        """Print the tables one below the other."""
        parts = (
            f"{title}\n{t.to_string(max_rows=MAX_ROWS, index=False)}" for title, t in self._tables()
        )
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        """Format the tables as HTML for notebooks."""
        return "".join(
            f"<p><b>{title}</b></p>{table.to_html(max_rows=MAX_ROWS, index=False, border=0)}"
            for title, table in self._tables()
        )

    def _tables(self) -> list[tuple[str, pd.DataFrame]]:
        """Return titles and tables, without those that are None."""
        named = [(key.replace("_", " ").capitalize(), t) for key, t in vars(self).items()]
        return [(title, table) for title, table in named if table is not None]


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
    state : HazardWithVariance
    backend : Backend
    """

    def total_of(
        design: Design, given: dict[int, float]
    ) -> Callable[[np.ndarray, int], np.ndarray]:
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
    for value in np.unique(column.x):
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
    effect : (Q,) array
        Its effect in each interval of time.
    place : int or None
        Its position among the columns with estimated coefficients; None if its coefficient is
        fixed.
    """

    x: np.ndarray
    effect: np.ndarray
    place: int | None

    @classmethod
    def of(
        cls,
        by: str | int,
        design: Design,
        fixed: FixedCoefficients | None,
        effects: np.ndarray,
        backend: Backend,
    ) -> GroupingColumn:
        """Find the column by its name or its position among all columns of X.

        Parameters
        ----------
        by : str or int
        design : Design
            All columns of X.
        fixed : FixedCoefficients or None
        effects : (k, Q) array
            Effect of each column with an estimated coefficient, in each interval of time.
        backend : Backend

        Raises
        ------
        DataError
            If there is no such column, or it has too many values.
        """
        j = coefficient_positions(by, design.names)[0]
        unit = np.zeros((design.p, 1))
        unit[j] = design.scale[j]
        x = design.matmul(unit, backend)[:, 0] + design.center[j]
        if (count := len(np.unique(x))) > MAX_GROUPS:
            raise DataError(
                f"Column {design.names[j]!r} has {count} values, too many for groups. Give "
                "the values that are meant: by={'low': X_low, 'high': X_high}."
            )
        if fixed is None:
            return cls(x, effects[j], j)
        row = int(fixed.row[j])
        if row < 0:
            return cls(x, np.full(effects.shape[1], fixed.values[j]), None)
        return cls(x, effects[row], row)


def _plain(value: float) -> float | int:
    """Convert whole numbers to integers, for labels."""
    return int(value) if float(value).is_integer() else float(value)


def standardize(
    state: HazardWithVariance,
    V: np.ndarray,
    groups: dict[Hashable, Population],
    codes: np.ndarray,
    weight: np.ndarray,
    times: np.ndarray,
    level: float,
    name: str,
) -> StandardizedSurvival:
    """Average the curves of each group and compare the others with the first.

    Parameters
    ----------
    state, V, codes, times
        Arguments of `standardized_averages`.
    groups : dict of Population
    weight : (n,) array
    level : float
    name : str
        Name of the column of groups.
    """
    share = weight / weight.sum()
    found = standardized_averages(state, V, list(groups.values()), codes, share, times)
    labels = list(groups)
    z = critical_value(level)
    A, T = found.survival.shape
    se = np.sqrt(np.maximum(np.diag(found.covariance), 0.0)).reshape(2, A, T)
    lower, upper = log_log_limits(found.survival, se[0], level)
    survival = {"survival": found.survival, "se": se[0], "lower": lower, "upper": upper}
    area = {
        "mean": found.area, "se": se[1],
        "lower": np.maximum(found.area - z * se[1], 0.0),
        "upper": np.minimum(found.area + z * se[1], times),
    }  # fmt: skip
    whole = [_table(x, times, labels, name) for x in (survival, area)]
    if labels == [None]:
        return StandardizedSurvival(*whole)
    compared = [
        _differences(found, 0, z), _ratios(found, z, 1.0), _ratios(found, z, -1.0),
        _differences(found, 1, z),
    ]  # fmt: skip
    return StandardizedSurvival(
        *whole, *(_table(x, times, labels[1:], name, labels[0]) for x in compared)
    )


def extend_to_times(found: StandardizedSurvival, times: np.ndarray) -> StandardizedSurvival:
    """Add rows of NaN to the tables for missing ones of some times (ascending)."""
    return StandardizedSurvival(
        *(None if x is None else _with_rows(x, times) for x in vars(found).values())
    )


def _with_rows(table: pd.DataFrame, times: np.ndarray) -> pd.DataFrame:
    """Extend a table to all times, in each group."""
    before = list(table.columns[: table.columns.get_loc("time")])
    wanted = pd.DataFrame({"time": times})
    if before:
        wanted = table[before].drop_duplicates().merge(wanted, how="cross")
    return wanted.merge(table, how="left", on=[*before, "time"])


def _differences(found: Averages, which: int, z: float) -> dict[str, np.ndarray]:
    """Compare survival (0) or areas (1): each group minus the first, (A − 1, T)."""
    values = (found.survival, found.area)[which]
    a, b, ab = _spread(found, which)
    difference = values[1:] - values[0]
    se = np.sqrt(np.maximum(a + b - 2 * ab, 0.0))
    lower, upper = difference - z * se, difference + z * se
    return {"difference": difference, "se": se, "lower": lower, "upper": upper}


def _ratios(found: Averages, z: float, side: float) -> dict[str, np.ndarray]:
    """Compute ratios of survival (1) or its complement (−1) to the first group's, (A − 1, T)."""
    value = found.survival if side > 0 else found.risk
    a, b, ab = _spread(found, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = value[1:] / value[0]
        of_log = a / value[1:] ** 2 + b / value[0] ** 2 - 2 * ab / (value[1:] * value[0])
        width = np.exp(z * np.sqrt(np.maximum(of_log, 0.0)))
        se = ratio * np.sqrt(np.maximum(of_log, 0.0))
        return {"ratio": ratio, "se": se, "lower": ratio / width, "upper": ratio * width}


def _spread(found: Averages, which: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return variances of the other groups and the first, and covariances, (A − 1, T) each."""
    A, T = found.survival.shape
    C = found.covariance.reshape(2, A, T, 2, A, T)[which, :, :, which]
    t = np.arange(T)
    at = C[:, t, :, t]  # (T, A, A)
    own = np.stack([at[:, k, k] for k in range(1, A)]) if A > 1 else np.empty((0, T))
    both = np.stack([at[:, k, 0] for k in range(1, A)]) if A > 1 else np.empty((0, T))
    return own, np.broadcast_to(at[:, 0, 0], own.shape), both


def _table(
    columns: dict[str, np.ndarray],
    times: np.ndarray,
    labels: list,
    name: str,
    reference: Hashable = None,
) -> pd.DataFrame:
    """Tabulate arrays (groups, times) in long form, without a column of groups if unlabelled."""
    long: dict[str, object] = {}
    if labels != [None]:
        index = np.repeat(np.arange(len(labels)), len(times))
        long[name] = pd.Series(labels, dtype=object).infer_objects().to_numpy()[index]
        if reference is not None:
            long["reference"] = [reference] * len(index)
    long["time"] = np.tile(times, len(labels))
    return pd.DataFrame(long | {key: x.ravel() for key, x in columns.items()})
