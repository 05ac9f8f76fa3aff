"""Release of one case series: what its page, pictures, terminal lines and ``repr`` may show."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steropes.studies.disclosure.cells import Bound
from steropes.studies.disclosure.rounding import in_ratio, significant
from steropes.studies.disclosure.rules import DisclosureRules
from steropes.studies.disclosure.series import (
    CovariateCounts,
    binned,
    release_series,
    released_counts,
    rounded_effect,
)
from steropes.studies.disclosure.study import WITHHELD
from steropes.studies.report.digits import decimals, limit_text
from steropes.studies.sccs.intervals import PROBE
from steropes.studies.sccs.results import covariate_ids, exact_tables
from steropes.studies.sccs.sccs_diagnostics import NOT_EVALUATED, PASS, Diagnostics, Verdict

if TYPE_CHECKING:
    from steropes.studies.sccs.sccs_study import CaseSeries

__all__ = ["SeriesRelease", "release_study"]

COUNTS = {
    "subjects": "outcome_subjects",
    "events": "outcome_events",
    "periods": "outcome_observation_periods",
}
BEFORE, AFTER = "pre-exposure", "end of observation"


@dataclass(frozen=True, repr=False, eq=False)
class SeriesRelease:
    """What may be released of a case series.

    Attributes
    ----------
    tables : dict of str to DataFrame
        In R's layout.
    attrition : DataFrame
        ``rule``, ``subjects``, ``events``, ``periods`` (numbers or bounds) and ``days``.
    counts : dict of str to CovariateCounts
        By covariate.
    estimates : DataFrame
        Rate ratios as ``CaseSeries.estimates`` has them; whether an exposure fails a diagnostic
        does not matter here.
    diagnostics : list of Diagnostics
    rules : DisclosureRules
    """

    tables: dict[str, pd.DataFrame]
    attrition: pd.DataFrame
    counts: dict[str, CovariateCounts]
    estimates: pd.DataFrame
    diagnostics: list[Diagnostics]
    rules: DisclosureRules

    def closed(self, name: str) -> bool:
        """Whether nothing of a covariate's effect may be told."""
        return name in self.counts and self.counts[name].closed

    def profiled(self, name: str) -> bool:
        """Whether the likelihood profile of a covariate may be told."""
        if self.rules.open or name not in self.counts:
            return True
        return not (self.counts[name].closed or self.counts[name].step or self.rules.rounds)

    def binned(self, n: int) -> int:
        """A count of a long series; minus the smallest that is told where it is small."""
        return binned(n, self.rules)


def release_study(study: CaseSeries) -> SeriesRelease:
    """Release a case series by its rules."""
    exact = exact_tables(study)
    ids = covariate_ids(study)
    rules = study.rules
    by_key = released_counts(exact, rules)
    counts = {name: by_key[1, 1, i] for name, i in ids.items() if (1, 1, i) in by_key}
    tables = release_series(exact, rules)
    return SeriesRelease(
        tables=tables,
        attrition=_attrition(study, tables["sccs_attrition"], rules),
        counts=counts,
        estimates=_estimates(study, counts, rules),
        diagnostics=[_diagnosis(study, d, counts, rules) for d in study.diagnostics],
        rules=rules,
    )


def _cell(n: float) -> int | Bound:
    return Bound(-int(n)) if n < 0 else int(n)


def _attrition(study: CaseSeries, table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """The rules, as the table has them for the first exposure of interest."""
    named = study.attrition["rule"].tolist()
    if rules.open or table.empty:
        columns = {c: rules.apart(study.attrition[c].astype(int)[::-1])[::-1] for c in COUNTS}
        days: list[int | None] = [int(n) for n in study.attrition["days"]]
    else:
        first = table[table["covariate_id"] == table["covariate_id"].iloc[0]]
        first = first.sort_values("sequence_number").iloc[: len(named)]
        columns = {c: [_cell(float(n)) for n in first[name]] for c, name in COUNTS.items()}
        known = first["observed_days"].astype(float)
        days = [None if math.isnan(n) else int(n) for n in known]
    return pd.DataFrame({"rule": named, **columns, "days": days}, dtype=object)


def _estimates(
    study: CaseSeries, counts: dict[str, CovariateCounts], rules: DisclosureRules
) -> pd.DataFrame:
    """Rate ratios without those, and without the digits, that would give a count away."""
    table = study.estimates.copy()
    if rules.open:
        return table
    names = {"lower": "ci_95_lb", "upper": "ci_95_ub", "se": "se_log_rr"}
    back = {v: k for k, v in names.items()}
    for name, c in counts.items():
        line = {names.get(str(k), str(k)): v for k, v in table.loc[name].items()}
        found: dict[str, Any] = {}
        if c.closed:
            if not line["note"]:
                found = {"note": WITHHELD}
            found |= {str(k): np.nan for k in line if k not in ("interval", "note")}
        elif c.step or rules.rounds:
            found = dict(rounded_effect(line, c.step, c.shift))
        for key, value in found.items():
            column = back.get(key, key)
            if column in table:
                table.loc[name, column] = value
    return table


def _diagnosis(
    study: CaseSeries, d: Diagnostics, counts: dict[str, CovariateCounts], rules: DisclosureRules
) -> Diagnostics:
    """A diagnosis without numbers from which a count would follow."""
    if rules.open:
        return d
    verdicts = dict(d.verdicts)
    columns = zip(study.intervals.names, study.intervals.columns, strict=True)
    before = [name for name, column in columns if column.pre_exposure]
    for key, names, what in ((BEFORE, before, "before exposure"), (AFTER, [PROBE], "at the end")):
        of = [counts[name] for name in names if name in counts]
        if any(c.closed for c in of):
            verdicts[key] = _untold(
                verdicts[key], f"Events just {what}: not told, since they are few."
            )
        elif any(c.step for c in of):
            verdicts[key] = _rounded(verdicts[key], max(c.step for c in of), of[0].shift)
    own = counts.get(d.covariate)
    if own is not None and (own.closed or own.step or rules.rounds):
        verdicts["detectable ratio"] = _untold(
            verdicts["detectable ratio"],
            "Rate ratio found with a probability of 80%: not told, as the outcomes of the cases "
            "with the exposure are not.",
        )
    rare = verdicts["rarity"]
    verdicts["rarity"] = replace(rare, value=significant(rare.value, 2))
    return replace(d, verdicts=verdicts)


def _rounded(verdict: Verdict, step: float, shift: float) -> Verdict:
    """The same verdict with a rate ratio and limits rounded as in the tables."""
    if verdict.verdict == NOT_EVALUATED or not verdict.limits:
        return verdict
    ends = (verdict.value, verdict.lower, verdict.upper)
    rr, low, high = (in_ratio(math.exp(shift) * x, step) for x in ends)
    meets = "meets" if verdict.verdict == PASS else "does not meet"
    return replace(
        verdict,
        value=rr,
        lower=low,
        upper=high,
        p=significant(verdict.p, 1),
        finding=f"{verdict.finding.split(':')[0]}: rate ratio {decimals(rr)} ({decimals(low)} to "
        f"{decimals(high)}), rounded; the interval {meets} {limit_text(verdict.limits[0])} to "
        f"{limit_text(verdict.limits[1])}.",
    )


def _untold(verdict: Verdict, finding: str) -> Verdict:
    nan = math.nan
    return replace(verdict, value=nan, lower=nan, upper=nan, p=nan, finding=finding)
