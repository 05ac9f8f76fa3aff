"""Tables of a case-only or case–control design for release, without small counts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pandas as pd

from steropes.designs.case_only import CaseOnlyResult
from steropes.designs.case_series_from_tables.case_series_result import CaseSeriesResult
from steropes.studies.disclosure.disclosive_digit_rounding import (
    Effect,
    effect_step,
    significant,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.effect_suppression import WITHHELD

__all__ = ["released_attrition", "released_ratios"]

COUNTS = (
    "exposed_cases", "exposed_references", "exposed_controls", "discordant_sets", "people",
    "events_at_risk", "events_before", "events",
)  # fmt: skip
NUMBERS = ("ratio", "lower", "upper", "p")
ROUNDED = "counts are rounded, because few sets have the same exposures"
# Rules of the people with whom cases are compared.
CONTROLS = ("controls", "future cases")


def released_ratios(
    result: CaseOnlyResult | CaseSeriesResult, rules: DisclosureRules
) -> pd.DataFrame:
    """Return the ratios with their counts, as text where a count is suppressed.

    A ratio with its limits discloses the counts that it is made of. If one of them is small, the
    ratio and all counts of the exposure are withheld, and so are those of the exposures in the same
    model. Numbers have three digits, as more would disclose how exposures occur together. If few
    sets have the same number of exposed windows or people, or the same exposures, counts are
    rounded to multiples of the smallest count, and ratios and limits to steps that hide as many.

    Parameters
    ----------
    result : CaseOnlyResult or CaseSeriesResult
    rules : DisclosureRules
    """
    table = _rows(result)
    closed = [any(rules.small(n) for n in row) for row in _cells(result, table)]
    if isinstance(result, CaseSeriesResult) or result.sets is not None:
        closed = [any(closed)] * len(closed)
    rounds = any(rules.small(n) for n in _joint_cells(result, table))
    lines = []
    for (name, line), hidden in zip(table.iterrows(), closed, strict=True):
        counts = {c: line[c] for c in COUNTS if c in table}
        numbers = dict.fromkeys(NUMBERS, np.nan)
        if hidden:
            counts = dict.fromkeys(counts, "")
        else:
            count = rules.coarse if rounds else rules.count
            counts = {c: "" if pd.isna(n) else str(count(int(n))) for c, n in counts.items()}
            numbers = _numbers(line, _step(line, rules) if rounds else 0.0, rules)
        note = WITHHELD if hidden else ROUNDED if rounds else str(line.get("note", ""))
        lines.append({"covariate": name, "kind": line["kind"], **numbers, **counts, "note": note})
    return pd.DataFrame(lines)


def released_attrition(
    result: CaseOnlyResult | CaseSeriesResult, rules: DisclosureRules, controls_per_case: int = 1
) -> pd.DataFrame:
    """Return the events that remain after each rule, in steps that hide few events.

    Numbers of controls are multiples of the number for each case, so that this many of a rounded
    number of cases stand for them.

    Parameters
    ----------
    result : CaseOnlyResult or CaseSeriesResult
    rules : DisclosureRules
    controls_per_case : int, default 1
    """
    table = result.attrition
    events = [int(n) for n in table["events"]]
    if rules.open:
        return table[["rule", "events"]].astype({"events": str})
    rules_of = [str(rule) for rule in table["rule"]]
    of_cases = sum(not rule.startswith(CONTROLS) for rule in rules_of)
    first = rules.count(events[0])
    left = rules.falling(events[0], events[1:of_cases]) if isinstance(first, int) else ()
    cases = [str(n) for n in (first, *left)]
    cases += [str(first)] * (of_cases - len(cases))
    found = [rules.coarse(round(n / controls_per_case)) for n in events[of_cases:]]
    least = controls_per_case * rules.least
    controls = [f"<{least}" if n < 0 else str(n * controls_per_case) for n in found]
    return pd.DataFrame({"rule": table["rule"], "events": [*cases, *controls]})


def _step(line: pd.Series, rules: DisclosureRules) -> float:
    """Return the step of a log ratio whose counts are rounded."""
    counts = [int(line[c]) for c in COUNTS if c in line and not pd.isna(line[c])]
    return effect_step(float(line["se"]), rules.least, events=counts)


def _numbers(line: pd.Series, step: float, rules: DisclosureRules) -> dict[str, float]:
    """Return a ratio with its limits and p-value, with few digits."""
    if rules.open:
        return {name: float(line[name]) for name in NUMBERS}
    if not step:
        found = {name: significant(float(line[name])) for name in NUMBERS}
        return {**found, "p": significant(found["p"], 2)}
    logs = np.log([float(line[name]) for name in ("ratio", "lower", "upper")])
    effect = Effect(*map(float, logs)).rounded(step)
    values = [significant(float(np.exp(x))) for x in (effect.log_rr, effect.lower, effect.upper)]
    return dict(zip(NUMBERS, (*values, effect.p), strict=True))


def _rows(result: CaseOnlyResult | CaseSeriesResult) -> pd.DataFrame:
    """Return the estimates with common names."""
    table = pd.DataFrame(result.estimates)
    if isinstance(result, CaseSeriesResult):
        table = table.rename(columns={"rr": "ratio"})
    return table


def _cells(result: CaseOnlyResult | CaseSeriesResult, table: pd.DataFrame) -> list[tuple[int, ...]]:
    """Return the counts that each row discloses.

    Without sets these are also the events that each rule leaves out, and those in none of the
    compared days, because the ratio and its limits disclose how many events are compared.
    """
    left = [int(n) for n in result.attrition["events"]]
    dropped = [before - after for before, after in pairwise(left)]
    if isinstance(result, CaseSeriesResult):
        compared = result.intervals.statistics["compared_events"].reindex(table.index)
        events = table["events"].astype(int)
        other = (compared.fillna(0).astype(int) - events).abs()
        outside = [abs(left[-1] - n) for n in events + other]
        return [(*own, *dropped) for own in zip(events, other, outside, strict=True)]
    if result.sets is None:
        people, after, before = (
            table[c].to_numpy(int) for c in ("people", "events_at_risk", "events_before")
        )
        others = np.abs(people - after - before)  # Exposed people without an event.
        outside = np.abs(left[-1] - after - before)
        return [
            (*own, *dropped) for own in zip(people, after, before, others, outside, strict=True)
        ]
    sets, control = result.sets, _controls(result.sets)
    n = sets.groupby(control)["set"].nunique().tolist()
    found = {
        name: (*n, *_patterns(sets["set"], sets["case"].eq(1), sets[name].eq(1), control))
        for name in _exposures(table)
    }
    return [found.get(name, tuple(n)) for name in table.index]


def _joint_cells(result: CaseOnlyResult | CaseSeriesResult, table: pd.DataFrame) -> list[int]:
    """Count sets with the same size, the same exposures of the case, and as many of the others."""
    if isinstance(result, CaseSeriesResult) or result.sets is None:
        return []
    sets, names = result.sets, _exposures(table)
    exposed = sets[names].eq(1)
    of = [_controls(sets), sets["set"]]
    cases = exposed[sets["case"].eq(1)].groupby([part[sets["case"].eq(1)] for part in of]).sum()
    everybody = exposed.groupby(of).sum().join(exposed.groupby(of).size().rename("size"))
    joint = everybody.join(cases, rsuffix=" of cases").reset_index(level=1, drop=True)
    return [int(n) for n in joint.set_index(list(joint.columns), append=True).index.value_counts()]


def _controls(sets: pd.DataFrame) -> pd.Series:
    """Return which sets are those of controls."""
    return sets["control"] if "control" in sets else pd.Series(0, sets.index)


def _exposures(table: pd.DataFrame) -> list[str]:
    """Return the names of the exposures among the rows of estimates."""
    if table["kind"].isin(["exposure", "covariate"]).all():
        return list(table.index[table["kind"] == "exposure"])
    return list(table.index.unique())


def _patterns(
    of: pd.Series, case: pd.Series, exposed: pd.Series, control: pd.Series
) -> Iterable[int]:
    """Count sets by whether cases, and no, some or all of the others, are exposed."""
    table = pd.DataFrame({"set": of, "case": case, "exposed": exposed, "control": control})
    share = table.groupby(["control", "set", "case"])["exposed"].mean().unstack("case")
    part = share.where(share.isin([0, 1]), 0.5)  # none, some or all
    return [int(n) for n in part.groupby("control").value_counts()]
