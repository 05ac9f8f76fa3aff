"""Released effects: withheld or rounded if their digits would reveal a suppressed count."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from steropes.designs.values.ratios_from_logarithms import ratio_of
from steropes.studies.disclosure.disclosive_digit_rounding import (
    Effect,
    effect_step,
    significant,
    withheld,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.released_table_rows import column, each_row
from steropes.studies.disclosure.small_cell_suppression import Bound

__all__ = [
    "EFFECT",
    "WITHHELD",
    "Secrecy",
    "effect_columns",
    "number",
    "released_controls",
    "released_effects",
    "released_truth",
    "rounded_effect",
    "secrecy_of",
]

# The note of an estimate that is withheld.
WITHHELD = "not released: it would give away a count of few people"
EFFECT = ("rr", "ci_95_lb", "ci_95_ub", "p", "one_sided_p", "log_rr", "se_log_rr", "llr")


@dataclass(frozen=True)
class Secrecy:
    """Suppressed parts of a result, and the precision with which its effect is released.

    Attributes
    ----------
    closed : bool
        Whether the effect is withheld.
    step : float
        Step to which log ratios are rounded; 0 if no count is suppressed.
    events : bool, default False
        Whether a number of events is suppressed, which the likelihood would reveal.
    shift : float, default 0
        Added to the log ratio before it is rounded, so that the result is about the same for all
        possible values of another suppressed count.
    ends : tuple of (float, float), default (0, 0)
        Added to the lower and the upper log limit as well, for the same reason.
    """

    closed: bool
    step: float
    events: bool = False
    shift: float = 0.0
    ends: tuple[float, float] = (0.0, 0.0)

    def rounds(self, rules: DisclosureRules) -> bool:
        """Check whether the effect is released with fewer digits."""
        return bool(self.step) or rules.rounds

    def moved(self, at: float, low: float, high: float) -> tuple[float, float, float]:
        """Shift a log ratio and its limits; infinite ones stay."""
        below, above = self.ends
        return at + self.shift, low + self.shift + below, high + self.shift + above


def secrecy_of(
    arms: Sequence[tuple[int, int, int]],
    hidden_events: Iterable[int],
    hidden_people: Iterable[int],
    se: float,
    rules: DisclosureRules,
) -> Secrecy:
    """Determine the precision with which an effect is released.

    Parameters
    ----------
    arms : sequence of (int, int, int)
        Events, people and informative events of each arm.
    hidden_events, hidden_people : iterable of int
        Those events and people that are not released exactly.
    se : float
        Standard error of the log ratio; NaN without an estimate.
    """
    counts = [(e, n) for e, n, _ in arms] + [(i, max(n, i)) for _, n, i in arms]
    events = [*hidden_events]
    step = effect_step(
        se if math.isfinite(se) else math.nan, rules.least, events=events, people=[*hidden_people]
    )
    return Secrecy(withheld(counts, rules.least), step, bool(events))


def effect_columns(
    line: dict[Any, Any], secrecy: Secrecy, rules: DisclosureRules
) -> dict[str, float]:
    """Return the released values of a row's effect; empty if the exact ones are released."""
    if secrecy.closed:
        return {name: math.nan for name in EFFECT if name in line}
    return rounded_effect(line, secrecy) if secrecy.rounds(rules) else {}


def released_effects(
    table: pd.DataFrame, secrecy: Callable[[dict[object, object]], Secrecy], rules: DisclosureRules
) -> pd.DataFrame:
    """Release the effects of a table whose rows have the given secrecy."""
    return each_row(table, lambda line: line | effect_columns(line, secrecy(line), rules))


def number(x: Any) -> float:
    """Convert a value to a float; missing ones to NaN."""
    return math.nan if x is None or pd.isna(x) else float(x)


def rounded_effect(line: dict[object, object], secrecy: Secrecy) -> dict[str, float]:
    """Round an effect and its limits, and derive everything else from the rounded numbers."""
    low, high, ratio = (_log(number(line[name])) for name in ("ci_95_lb", "ci_95_ub", "rr"))
    at = number(line["log_rr"]) if "log_rr" in line else ratio
    found = Effect(*secrecy.moved(at, low, high)).rounded(secrecy.step)
    values = {
        "rr": significant(ratio_of(found.log_rr)),
        "ci_95_lb": significant(ratio_of(found.lower)),
        "ci_95_ub": significant(ratio_of(found.upper)),
        "p": found.p,
        "one_sided_p": found.one_sided_p,
        "log_rr": significant(found.log_rr, 6),
        "se_log_rr": significant(found.se) if math.isfinite(found.se) else math.nan,
        "llr": math.nan,
    }
    return {name: value for name, value in values.items() if name in line}


def _log(x: float) -> float:
    """Return the logarithm of a ratio; that of 0 is −∞."""
    return math.log(x) if x > 0 else (-math.inf if x == 0 else math.nan)


# -- control outcomes ------------------------------------------------------------------------------


def released_truth(table: pd.DataFrame) -> pd.DataFrame:
    """Round known ratios, whose digits would reveal the outcomes of a positive control."""
    ratios = table["true_effect_size"].map(lambda x: significant(number(x), 4))
    return table.assign(true_effect_size=ratios)


def released_controls(table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release the origins of positive controls."""
    if table.empty:
        return table
    counts: dict[str, Any] = {
        name: column(_count(n, rules) for n in table[name])
        for name in ("outcomes_before", "outcomes_added")
    }
    return released_truth(table).assign(**counts)


def _count(n: Any, rules: DisclosureRules) -> int | Bound:
    """Release a count."""
    return rules.count(int(n))
