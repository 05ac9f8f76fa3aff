"""Standardised survival: averages, differences, ratios and restricted means."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from ...data.formatted_tables_for_papers import Interval
from ...data.html_representations import SHOWN_ROWS
from ...data.plottable_result_tables import ResultTable, present
from ...infer.baseline_hazard_variance import HazardWithVariance
from ...infer.standardized_curves import Averages, JointCovariance, standardized_averages
from ...infer.survival_standard_errors import incidence_limits, log_log_limits
from ..fitting.coefficient_tables import critical_value
from ..fitting.default_standard_errors import name_errors
from .counterfactual_groups import PeopleToAverage

__all__ = ["StandardizedIncidence", "StandardizedSurvival", "standardize", "standardize_incidence"]


class StandardizedTables:
    """Tables of averages, which are printed one below the other; some may be None."""

    def __repr__(self) -> str:
        """Print the tables one below the other."""
        parts = (
            f"{title}\n{t.to_string(max_rows=SHOWN_ROWS, index=False)}"
            for title, t in self._tables()
        )
        return "\n\n".join(parts)

    def _named(self, errors: str, model: Any = None) -> Self:
        """Name the kind of errors in all tables, in print in their titles; see `name_errors`."""
        for table in vars(self).values():
            if table is not None:
                name_errors(table, errors, model)
        return self

    def _repr_html_(self) -> str:
        """Format the tables as HTML for notebooks."""
        return "".join(
            f"<p><b>{title}</b></p>{table.to_html(max_rows=SHOWN_ROWS, index=False, border=0)}"
            for title, table in self._tables()
        )

    def _tables(self) -> list[tuple[str, pd.DataFrame]]:
        """Return titles and tables, without those that are None."""
        titles = [(key.replace("_", " ").capitalize(), t) for key, t in vars(self).items()]
        return [
            (title if t.columns.name is None else f"{title} ({t.columns.name})", t)
            for title, t in titles
            if t is not None
        ]

    def plot(self, **options: Any) -> Any:
        """Draw the average curves of the groups; the other tables have plots of their own.

        Parameters
        ----------
        **options
            As of `steropes.plots.survival_curves` or `steropes.plots.incidence_curves`.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        first: ResultTable = next(iter(vars(self).values()))
        return first.plot(**options)

    def extended_to(self, times: np.ndarray, level: float) -> Self:
        """Copy the tables with rows of NaN for the times that they lack, and their presentation.

        Parameters
        ----------
        times : (T,) array
            Times in ascending order, which include those of the tables.
        level : float
            Confidence level of the limits.

        Returns
        -------
        StandardizedSurvival or StandardizedIncidence
            The tables with a row for each group and time.
        """
        return type(self)(
            *(
                None if x is None else _present(_with_rows(x, times), level)
                for x in vars(self).values()
            )
        )


@dataclass(frozen=True, repr=False)
class StandardizedSurvival(StandardizedTables):
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
    CoxRegression.curves.standardized_survival : Compute these tables.

    Examples
    --------
    >>> import pandas as pd, steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> X = pd.DataFrame({"drug": [0.0, 1.0, 0.0, 0.0, 1.0]})
    >>> model = steropes.CoxRegression().fit(X, y)
    >>> averages = model.curves.standardized_survival(X, times=[4], by="drug")
    >>> averages.survival[["drug", "time", "survival"]].round(2).to_numpy().tolist()
    [[0.0, 4.0, 0.57], [1.0, 4.0, 0.73]]
    """

    survival: pd.DataFrame
    restricted_means: pd.DataFrame
    differences: pd.DataFrame | None = None
    ratios: pd.DataFrame | None = None
    risk_ratios: pd.DataFrame | None = None
    restricted_mean_differences: pd.DataFrame | None = None


@dataclass(frozen=True, repr=False)
class StandardizedIncidence(StandardizedTables):
    """Cumulative incidence averaged over people, with comparisons of groups.

    Every table has ``time``, ``se``, ``lower``, ``upper``. With groups the first column is the
    group, and tables of differences and ratios have the group ``reference`` too.

    Attributes
    ----------
    incidence : DataFrame
        The average in the column ``incidence``.
    times_lost : DataFrame
        The average time lost to the event up to ``time``, which is the area under the incidence,
        in the column ``mean``.
    differences : DataFrame or None
        Differences of incidence in the column ``difference``; None without groups.
    ratios : DataFrame or None
        Ratios of incidence in the column ``ratio``, missing before the first event, when all
        incidences are zero; None without groups.
    time_lost_differences : DataFrame or None
        Differences of times lost in the column ``difference``; None without groups.

    See Also
    --------
    FineGrayRegression.curves.standardized_incidence : Compute these tables.

    Examples
    --------
    >>> import pandas as pd, steropes
    >>> y = steropes.Surv([1, 2, 3, 4, 5, 6], [1, 2, 1, 0, 1, 2])
    >>> X = pd.DataFrame({"drug": [0.0, 1.0, 1.0, 0.0, 0.0, 1.0]})
    >>> model = steropes.FineGrayRegression().fit(X, y)
    >>> averages = model.curves.standardized_incidence(X, times=[3], by="drug")
    >>> averages.incidence[["drug", "time", "incidence"]].round(2).to_numpy().tolist()
    [[0.0, 3.0, 0.43], [1.0, 3.0, 0.19]]
    """

    incidence: pd.DataFrame
    times_lost: pd.DataFrame
    differences: pd.DataFrame | None = None
    ratios: pd.DataFrame | None = None
    time_lost_differences: pd.DataFrame | None = None


def standardize(
    state: HazardWithVariance, people: PeopleToAverage, joint: JointCovariance, level: float,
    rows: np.ndarray | None = None,
) -> StandardizedSurvival:  # fmt: skip
    """Average the survival curves of each group and compare the others with the first.

    Parameters
    ----------
    joint : callable
        Computes covariances of the averages, see `standardized_averages`.
    rows : (n,) int array, optional
        The rows of the fit that the people are, if they count as a sample.
    """
    found, z = _averages(state, people, joint, rows), critical_value(level)
    se = _errors(found)
    lower, upper = log_log_limits(found.survival, se[0], level)
    survival = {"survival": found.survival, "se": se[0], "lower": lower, "upper": upper}
    area = _areas(found.area, se[1], z, people.known)
    compared = [
        _differences(found, 0, z), _ratios(found, z, 1.0), _ratios(found, z, -1.0),
        _differences(found, 1, z),
    ]  # fmt: skip
    tables = _tabulate([survival, area], compared, people)
    return StandardizedSurvival(*tables).extended_to(people.times, level)


def standardize_incidence(
    state: HazardWithVariance, people: PeopleToAverage, joint: JointCovariance, level: float
) -> StandardizedIncidence:
    """Average the incidence of each group and compare the others with the first.

    The parameters are those of `standardize`.
    """
    found, z = _averages(state, people, joint), critical_value(level)
    se = _errors(found)
    lower, upper = incidence_limits(found.risk, se[0], level)
    incidence = {"incidence": found.risk, "se": se[0], "lower": lower, "upper": upper}
    lost = _areas(people.known - found.area, se[1], z, people.known)
    compared = [
        _differences(found, 0, z, -1.0), _ratios(found, z, -1.0), _differences(found, 1, z, -1.0)
    ]  # fmt: skip
    tables = _tabulate([incidence, lost], compared, people)
    return StandardizedIncidence(*tables).extended_to(people.times, level)


def _averages(
    state: HazardWithVariance, people: PeopleToAverage, joint: JointCovariance,
    rows: np.ndarray | None = None,
) -> Averages:  # fmt: skip
    """Average survival over the people of each group."""
    share = people.weight / people.weight.sum()
    groups = list(people.groups.values())
    return standardized_averages(state, joint, groups, people.codes, share, people.known, rows)


def _errors(found: Averages) -> np.ndarray:
    """Return standard errors of survival and of areas, (2, A, T)."""
    A, T = found.survival.shape
    variances = np.diagonal(found.covariance, axis1=1, axis2=2).T
    return np.sqrt(np.maximum(variances, 0.0)).reshape(2, A, T)


def _areas(mean: np.ndarray, se: np.ndarray, z: float, times: np.ndarray) -> dict[str, np.ndarray]:
    """Return mean times up to each time, (A, T), with limits."""
    lower, upper = np.maximum(mean - z * se, 0.0), np.minimum(mean + z * se, times)
    return {"mean": mean, "se": se, "lower": lower, "upper": upper}


def _tabulate(
    whole: list[dict[str, np.ndarray]],
    compared: list[dict[str, np.ndarray]],
    people: PeopleToAverage,
) -> list[pd.DataFrame]:
    """Tabulate averages, and comparisons if there are groups."""
    labels, name, times = list(people.groups), people.name, people.known
    tables = [_table(x, times, labels, name) for x in whole]
    if labels == [None]:
        return tables
    return tables + [_table(x, times, labels[1:], name, labels[0]) for x in compared]


def _with_rows(table: pd.DataFrame, times: np.ndarray) -> pd.DataFrame:
    """Extend a table to all times, in each group."""
    before = list(table.columns[: table.columns.get_loc("time")])
    wanted = pd.DataFrame({"time": times})
    if before:
        wanted = table[before].drop_duplicates().merge(wanted, how="cross")
    return wanted.merge(table, how="left", on=[*before, "time"])


def _present(table: pd.DataFrame, level: float) -> ResultTable:
    """Make a table of averages or comparisons a result that draws curves over time."""
    place = int(np.flatnonzero(table.columns == "time")[0])
    labels, value = list(table.columns[:place]), str(table.columns[place + 1])
    shown = [Interval(value.capitalize(), value, level=level)]
    if value in ("survival", "incidence"):
        return present(table, f"{value}_curves", intervals=shown)
    return present(
        table,
        "interval_curves",
        intervals=shown,
        labels=labels,
        column=value,
        step=value != "mean",
        ratio=value == "ratio",
        reference={"difference": 0.0, "ratio": 1.0}.get(value),
        label=value.capitalize(),
    )


def _differences(found: Averages, which: int, z: float, side: float = 1.0) -> dict[str, np.ndarray]:
    """Compare survival (0) or areas (1) or, with side −1, the distances from their maximum.

    Values are differences of each group minus the first, (A − 1, T).
    """
    values = (found.survival if side > 0 else -found.risk, found.area)[which]
    a, b, ab = _spread(found, which)
    difference = side * (values[1:] - values[0]) + 0.0  # no minus zero
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
    A = len(found.survival)
    C = found.covariance[:, which * A : (which + 1) * A, which * A : (which + 1) * A]
    own, first, both = C[:, range(1, A), range(1, A)].T, C[:, 0, 0], C[:, 1:, 0].T
    return own, np.broadcast_to(first, own.shape), both


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
