"""Withholding of estimates that would reveal the few outcomes since an earlier look."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from steropes.studies.disclosure.disclosure_rules import DisclosureRules

__all__ = ["FEW", "counts_of_comparison", "counts_of_series", "without_few_outcomes"]

FEW = "too few outcomes since a look that is shown"
# The numbers of an estimate.
NUMBERS = ("log_rr", "se", "z", "profile")
Counts = tuple[int, ...]


def counts_of_comparison(line: Mapping[Any, Any]) -> Counts | None:
    """Return the outcomes of both arms of a row of ``cm_result``; None if one is unknown."""
    return _known(line, "target_outcomes", "comparator_outcomes")


def counts_of_series(line: Mapping[Any, Any]) -> Counts | None:
    """Return the outcomes in and outside of a window of a row of ``sccs_result``."""
    found = _known(line, "covariate_outcomes", "outcome_events")
    return None if found is None else (found[0], found[1] - found[0])


def _known(line: Mapping[Any, Any], *names: str) -> Counts | None:
    """Return released counts; None if one is missing, or negative because it is suppressed."""
    values = [float(line.get(name, math.nan)) for name in names]
    return tuple(int(n) for n in values) if all(n >= 0 for n in values) else None


def without_few_outcomes(
    looks: Sequence[pd.DataFrame], key: Sequence[str], rules: DisclosureRules
) -> list[pd.DataFrame]:
    """Withhold estimates whose outcomes differ by few from those of an earlier look.

    Otherwise the few outcomes would follow from the estimates of both looks. A negative control
    keeps its estimate of the last look that counts, because its systematic error is needed.

    Parameters
    ----------
    looks : sequence of DataFrame
        The estimates of each look, with ``counts`` (None if unknown), ``control`` and ``note``.
    key : sequence of str
        Columns that name an estimate.
    rules : DisclosureRules
        Rules of the releases, whose counts may be rounded.

    Returns
    -------
    list of DataFrame
        The looks, without ``counts``.
    """
    shown: dict[tuple[Hashable, ...], list[dict[Any, Any]]] = {}
    found = []
    for look in looks:
        lines = look.to_dict("records")
        for line in lines:
            now = line.pop("counts")
            if now is None or math.isnan(line["se"]):
                continue
            before = shown.setdefault(tuple(line[name] for name in key), [])
            if any(_few(now, one["counts"], rules) for one in before):
                last = before[-1] if line["control"] else dict.fromkeys(NUMBERS, math.nan)
                line |= {name: last[name] for name in NUMBERS}
                line |= {} if line["control"] else {"profile": None, "note": FEW}
            else:
                before.append({"counts": now, **{name: line[name] for name in NUMBERS}})
        found.append(pd.DataFrame(lines, columns=look.columns.drop("counts")))
    return found


def _few(now: Counts, before: Counts, rules: DisclosureRules) -> bool:
    """Return whether exact counts may differ by few, but by some."""
    unsure = rules.rounding - 1
    differences = [abs(a - b) for a, b in zip(now, before, strict=True)]
    return any(d - unsure < rules.least and d + unsure > 0 for d in differences)
