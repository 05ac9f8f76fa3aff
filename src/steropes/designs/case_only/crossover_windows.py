"""Windows before index days and reference windows, and their comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.case_only.exposure_windows import ExposedDays, check_offsets, check_window
from steropes.designs.case_only.index_days import Attrition, IndexDays, People
from steropes.designs.case_only.matched_odds_ratios import discordant_sets, fit_sets, ratio_rows
from steropes.designs.values.argument_checks import check_whole

__all__ = ["CrossoverRules", "WindowSets", "compare_windows", "join_sets", "window_sets"]

WHY = "There is nothing to compare: use other windows, or leave this exposure out of exposures."


@dataclass(frozen=True)
class CrossoverRules:
    """The window before index days, and how far reference windows lie before it.

    Attributes
    ----------
    window : (int, int)
        First and last day.
    offsets : (k,) int array
        Negative, descending.
    washout : int
    """

    window: tuple[int, int]
    offsets: NDArray
    washout: int

    @classmethod
    def checked(cls, window: Any, references: Any, washout: Any) -> CrossoverRules:
        """Check the arguments of `case_crossover`."""
        found = check_window("window", window)
        offsets = np.array(check_offsets(references, found), np.int64)
        return cls(found, offsets, check_whole("washout", washout, 0))

    def reference_observed(self, begins: NDArray, first: NDArray) -> NDArray:
        """Return whether each reference window is observed, (n, k), from starts of windows."""
        return np.asarray(begins[:, None] + self.offsets >= first[:, None])


@dataclass(frozen=True)
class WindowSets:
    """Windows in sets, of which the first of each is that before the index day.

    Attributes
    ----------
    set, person, day, first, last : (n,) int arrays
        Sets from 0; the index day; the days of the window.
    case : (n,) bool array
        Whether it is the window before the index day.
    """

    set: NDArray
    person: NDArray
    day: NDArray
    first: NDArray
    last: NDArray
    case: NDArray


def window_sets(
    index: IndexDays, people: People, rules: CrossoverRules, attrition: Attrition, what: str
) -> WindowSets:
    """Make the windows of index days; leave out those that begin before observation.

    Parameters
    ----------
    what : str
        Name of the index days, for the rules.
    """
    first = people.observation.first[index.period]
    begins = index.day + rules.window[0]
    observed = rules.reference_observed(begins, first)
    kept = (begins >= first) & observed.any(axis=1)
    attrition.add(f"{what} with a window and a reference window observed", index.person[kept])
    index, observed = index.take(kept), observed[kept]
    used = np.column_stack([np.ones(len(index), bool), observed])
    of, which = np.nonzero(used)
    shift = np.concatenate([[0], rules.offsets])[which]
    day = index.day[of]
    return WindowSets(
        of, index.person[of], day, day + rules.window[0] + shift, day + rules.window[1] + shift,
        which == 0,
    )  # fmt: skip


def join_sets(cases: WindowSets, controls: WindowSets) -> WindowSets:
    """Put the sets of cases and those of controls together."""
    parts = vars(cases), vars(controls)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    joined["set"] = np.concatenate([cases.set, controls.set + cases.set[-1] + 1])
    return WindowSets(**joined)


def compare_windows(
    windows: WindowSets, people: People, control: NDArray | None, level: float
) -> tuple[pd.DataFrame, pd.DataFrame, Any]:
    """Estimate odds ratios; return them with the sets and the model.

    Parameters
    ----------
    control : (n,) bool array, optional
        Whether windows are of controls, against whose ratios those of cases are compared.
    """
    assert people.exposures is not None  # `read_people` has read them.
    days = ExposedDays(people.exposures)
    exposed = days.within(windows.person, windows.first, windows.last)
    groups = {"cases": np.ones(len(windows.set), bool)}
    if control is not None:
        groups = {"cases": ~control, "controls": control}
    names, k = days.names, len(days.names)
    labels = [n if control is None else f"{n} ({group})" for group in groups for n in names]
    X = np.column_stack([exposed & own[:, None] for own in groups.values()])
    model = fit_sets(X, labels, windows.case, windows.set, contrasts=len(labels), why=WHY)
    robust = len(np.unique(windows.person)) < windows.set[-1] + 1
    errors = "robust" if robust else "model"
    cluster = windows.person if robust else None
    covariance = model.vcov(errors, cluster=cluster).to_numpy()
    counts = [_counts(exposed[own], _of(windows, own), names) for own in groups.values()]
    tables = [
        ratio_rows(model.coef_[at], np.sqrt(np.diag(covariance)[at]), names, level, errors)
        .join(count)
        .assign(kind=group)
        for group, count, at in zip(groups, counts, _blocks(k, len(groups)), strict=True)
    ]
    if control is not None:
        change = np.hstack([np.eye(k), -np.eye(k)])
        error = np.sqrt(np.diag(change @ covariance @ change.T))
        ratio = ratio_rows(change @ model.coef_, error, names, level, errors)
        tables.insert(0, ratio.join(counts[0]).assign(kind="cases against controls"))
    table = pd.concat(tables)
    return (
        table[["kind", *(c for c in table if c != "kind")]],
        _table(windows, people, exposed, names, control),
        model,
    )


def _blocks(k: int, groups: int) -> list[slice]:
    """Return the coefficients of each group."""
    return [slice(g * k, (g + 1) * k) for g in range(groups)]


def _of(windows: WindowSets, rows: NDArray) -> WindowSets:
    """Select rows."""
    return WindowSets(**{name: value[rows] for name, value in vars(windows).items()})


def _counts(exposed: NDArray, windows: WindowSets, names: list[str]) -> pd.DataFrame:
    """Count exposed windows and discordant sets."""
    return pd.DataFrame(
        {
            "exposed_cases": exposed[windows.case].sum(axis=0),
            "exposed_references": exposed[~windows.case].sum(axis=0),
            "discordant_sets": discordant_sets(exposed, windows.set),
        },
        names,
    )


def _table(
    windows: WindowSets,
    people: People,
    exposed: NDArray,
    names: list[str],
    control: NDArray | None,
) -> pd.DataFrame:
    """Return the windows as a table."""
    table = pd.DataFrame(
        {
            "set": windows.set,
            "id": people.observation.ids.take(windows.person),
            "case": windows.case.astype(np.int8),
            "day": people.day_values(windows.day),
        }
    )
    if control is not None:
        table["control"] = control.astype(np.int8)
    return table.join(pd.DataFrame(exposed.astype(np.int8), columns=names), rsuffix=" (exposure)")
