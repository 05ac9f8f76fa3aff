"""Tables of a case-only or case–control design for release, without small counts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from steropes.designs.case_only import CaseOnlyResult
from steropes.designs.case_series_from_tables.case_series_result import CaseSeriesResult
from steropes.studies.disclosure.disclosive_digit_rounding import significant
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.effect_suppression import WITHHELD
from steropes.studies.disclosure.small_cell_suppression import falling

__all__ = ["released_attrition", "released_ratios"]

COUNTS = (
    "exposed_cases", "exposed_references", "exposed_controls", "discordant_sets", "people",
    "events_at_risk", "events_before", "events",
)  # fmt: skip
NUMBERS = ("ratio", "lower", "upper", "p")


def released_ratios(
    result: CaseOnlyResult | CaseSeriesResult, rules: DisclosureRules
) -> pd.DataFrame:
    """Return the ratios with their counts, as text where a count is suppressed.

    A ratio with its limits tells the counts that it is made of. If one of them is small, the ratio
    and all counts of the exposure are withheld.

    Parameters
    ----------
    result : CaseOnlyResult or CaseSeriesResult
    rules : DisclosureRules
    """
    table = _rows(result)
    cells = _cells(result, table)
    lines = []
    for k, (name, line) in enumerate(table.iterrows()):
        closed = any(rules.small(n) for n in cells[k])
        counts = {c: line[c] for c in COUNTS if c in table}
        numbers = {c: float(line[c]) for c in NUMBERS}
        if closed:
            numbers = dict.fromkeys(numbers, np.nan)
            counts = dict.fromkeys(counts, "")
        else:
            counts = {c: "" if pd.isna(n) else str(rules.count(int(n))) for c, n in counts.items()}
            if rules.rounds:
                numbers = {c: significant(x) for c, x in numbers.items()}
        note = WITHHELD if closed else str(line.get("note", ""))
        lines.append({"covariate": name, "kind": line["kind"], **numbers, **counts, "note": note})
    return pd.DataFrame(lines)


def released_attrition(
    result: CaseOnlyResult | CaseSeriesResult, rules: DisclosureRules
) -> pd.DataFrame:
    """Return the events that remain after each rule, in steps that hide few events."""
    table = result.attrition
    events = [int(n) for n in table["events"]]
    if rules.open:
        return table[["rule", "events"]].astype({"events": str})
    first = rules.count(events[0])
    if not isinstance(first, int):
        return pd.DataFrame({"rule": table["rule"], "events": str(first)})
    released = falling(first, events[1:], rules.least)
    return pd.DataFrame({"rule": table["rule"], "events": [str(n) for n in (first, *released)]})


def _rows(result: CaseOnlyResult | CaseSeriesResult) -> pd.DataFrame:
    """Return the estimates with common names."""
    table = pd.DataFrame(result.estimates)
    if isinstance(result, CaseSeriesResult):
        table = table.rename(columns={"rr": "ratio"})
    return table


def _cells(result: CaseOnlyResult | CaseSeriesResult, table: pd.DataFrame) -> list[tuple[int, ...]]:
    """Return the counts that each row tells."""
    if isinstance(result, CaseSeriesResult):
        compared = result.intervals.statistics["compared_events"].reindex(table.index)
        events = table["events"].astype(int)
        other = (compared.fillna(0).astype(int) - events).abs()
        return list(zip(events, other, strict=True))
    if result.sets is None:
        columns = ["people", "events_at_risk", "events_before"]
        return [tuple(map(int, row)) for row in table[columns].to_numpy()]
    sets = result.sets
    control = sets["control"] if "control" in sets else pd.Series(0, sets.index)
    n = sets.groupby(control)["set"].nunique().tolist()
    if "kind" in table and table["kind"].isin(["exposure", "covariate"]).all():
        exposures = table.index[table["kind"] == "exposure"]
    else:
        exposures = table.index.unique()
    found = {
        name: (*n, *_patterns(sets["set"], sets["case"].eq(1), sets[name].eq(1), control))
        for name in exposures
    }
    return [found.get(name, tuple(n)) for name in table.index]


def _patterns(
    of: pd.Series, case: pd.Series, exposed: pd.Series, control: pd.Series
) -> Iterable[int]:
    """Count sets by whether cases, and no, some or all of the others, are exposed."""
    table = pd.DataFrame({"set": of, "case": case, "exposed": exposed, "control": control})
    share = table.groupby(["control", "set", "case"])["exposed"].mean().unstack("case")
    part = share.where(share.isin([0, 1]), 0.5)  # none, some or all
    return [int(n) for n in part.groupby("control").value_counts()]
