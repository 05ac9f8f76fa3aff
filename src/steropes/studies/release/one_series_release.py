"""Numbers of one case series for its page, figures and terminal, without small counts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from steropes.data.number_formatting import decimals, limit_text
from steropes.designs.case_series.event_timing import remaining_time
from steropes.designs.case_series.interval_rows import PROBE
from steropes.designs.values.ratios_from_logarithms import ratio_of
from steropes.studies.diagnostics.diagnostic import NOT_EVALUATED, PASS, Verdict, Word
from steropes.studies.diagnostics.diagnostic_catalogue import SERIES, further_diagnostics
from steropes.studies.disclosure.disclosive_digit_rounding import (
    Effect,
    in_ratio,
    log_unit,
    significant,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.effect_suppression import WITHHELD, Secrecy, effect_columns
from steropes.studies.disclosure.small_cell_suppression import Bound
from steropes.studies.release.joint_series_counts import OUTCOMES
from steropes.studies.release.series_covariate_counts import (
    CovariateCounts,
    few_in_months,
    released_covariates,
)
from steropes.studies.release.series_over_time import released_years, time_until_end
from steropes.studies.release.series_table_release import (
    covariate_days,
    has_profile,
    joint_secrecy,
    release_series,
    released_further,
    released_p,
)
from steropes.studies.sccs.results.sccs_diagnostics import (
    Diagnostics,
    further_finding,
    stability_finding,
)
from steropes.studies.sccs.results.sccs_result_tables import (
    ESTIMATE,
    covariate_ids,
    exact_tables,
    weekly_eras,
)
from steropes.studies.sccs.results.unsuppressed_series_results import ExactSeries

__all__ = ["ReleasedSeries", "SeriesRelease", "release_study"]

COLUMNS = {column: name for name, column in ESTIMATE.items()}


@dataclass(frozen=True, repr=False, eq=False)
class SeriesRelease:
    """The released numbers of a case series.

    Attributes
    ----------
    tables : dict of str to DataFrame
        Tables in R's layout.
    attrition : DataFrame
        ``rule``, ``subjects``, ``events``, ``periods`` (numbers or bounds) and ``days``.
    estimates : DataFrame
        Rate ratios in the layout of ``CaseSeries.estimates``, including those of exposures that
        fail a diagnostic.
    days : dict of str to int or None
        Days of each covariate; None where one of its other counts is suppressed.
    yearly : DataFrame
        Observed over expected outcomes by year, ``expected`` at a constant rate and ``adjusted``
        with the model's effects of time; empty if a year between others has few outcomes.
    weeks : dict of str to DataFrame
        By exposure: ``week`` and ``outcomes`` around its first start. As in the tables, numbers of
        long series are multiples of the smallest count, and small ones are minus that count.
    ends : DataFrame
        Outcomes by the years until observation ends: ``start`` and ``stop`` of each bar, and
        ``ended`` and ``data_ended`` by the reason of the end, in bars that are wide enough.
    """

    tables: dict[str, pd.DataFrame]
    attrition: pd.DataFrame
    counts: dict[str, CovariateCounts]
    estimates: pd.DataFrame
    diagnostics: list[Diagnostics]
    days: dict[str, int | None]
    yearly: pd.DataFrame
    weeks: dict[str, pd.DataFrame]
    ends: pd.DataFrame
    rules: DisclosureRules

    def profiled(self, name: str) -> bool:
        """Check whether the likelihood profile of a covariate may be released."""
        return name not in self.counts or has_profile(self.counts[name], self.rules)


class ReleasedSeries(ExactSeries):
    """A case series with its released numbers."""

    @cached_property
    def release(self) -> SeriesRelease:
        """The results after disclosure control; page, figures, tables and ``repr`` use it."""
        return release_study(self)

    def tables(
        self, analysis_id: int = 1, set_id: int = 1, database_id: str | None = None
    ) -> dict[str, pd.DataFrame]:
        """Return the tables for release, in the layout of SelfControlledCaseSeries 6.

        Parameters
        ----------
        analysis_id : int, default 1
            Number of the analysis.
        set_id : int, default 1
            Number of the set of exposures and outcome.
        database_id : str, optional
            Name of the database. Default: its own name.

        Returns
        -------
        dict of str to DataFrame
            Tables by name, after disclosure control.
        """
        exact = exact_tables(self, analysis_id, set_id, database_id)
        return release_series(exact, self.rules, self.settings.thresholds)


def release_study(study: ExactSeries) -> SeriesRelease:
    """Release a case series by its rules."""
    exact, rules = exact_tables(study), study.rules
    by_key = released_covariates(exact, rules)
    ids = covariate_ids(study)
    counts = {name: by_key[1, 1, i] for name, i in ids.items() if (1, 1, i) in by_key}
    tables = release_series(exact, rules, study.settings.thresholds, by_key)
    few = set() if rules.open else few_in_months(exact, by_key, rules)
    by_data = study.population.end_known[study.population.outcome_case]
    ends = {"ended": int((~by_data).sum()), "data_ended": int(by_data.sum())}
    return SeriesRelease(
        tables=tables,
        attrition=_attrition(study, tables["sccs_attrition"], rules),
        counts=counts,
        estimates=_estimates(study, counts, rules),
        diagnostics=[
            _diagnosis(study, d, _words(tables, ids[d.covariate]), counts, rules)
            for d in study.diagnostics
        ],
        days={name: _days(study, name, c, rules) for name, c in counts.items()},
        yearly=released_years(study.monthly, bool(few), rules),
        weeks=_weeks(study, tables["sccs_time_to_event"]),
        ends=time_until_end(remaining_time(study.population), ends, rules),
        rules=rules,
    )


def _weeks(study: ExactSeries, table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the released outcomes by week of each exposure."""
    return {
        name: table.loc[table["era_id"] == era, ["week", "outcomes"]]
        for name, era in weekly_eras(study).items()
    }


def _attrition(study: ExactSeries, table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Return the released rules and counts; the table repeats them for each exposure."""
    named = study.attrition["rule"].tolist()
    if rules.open or table.empty:
        columns = {c: rules.apart(study.attrition[c].astype(int)[::-1])[::-1] for c in OUTCOMES}
        days: list[int | None] = [int(n) for n in study.attrition["days"]]
    else:
        first = table[table["covariate_id"] == table["covariate_id"].iloc[0]]
        first = first.sort_values("sequence_number").iloc[: len(named)]
        columns = {
            c: [Bound(-int(n)) if n < 0 else int(n) for n in first[name]]
            for c, name in OUTCOMES.items()
        }
        days = [None if math.isnan(n) else int(n) for n in first["observed_days"].astype(float)]
    return pd.DataFrame({"rule": named, **columns, "days": days}, dtype=object)


def _days(
    study: ExactSeries, name: str, released: CovariateCounts, rules: DisclosureRules
) -> int | None:
    """Return the released days of a covariate; None where its subjects or events are suppressed."""
    exact = study.intervals.statistics.loc[name]
    days = covariate_days(exact["days"], int(exact["subjects"]), released, rules)
    return None if math.isnan(days) else round(days)


def _estimates(
    study: ExactSeries, counts: dict[str, CovariateCounts], rules: DisclosureRules
) -> pd.DataFrame:
    """Return the released rate ratios; a withheld one has a note."""
    table = study.estimates.copy()
    for name, c in {} if rules.open else counts.items():
        line = table.loc[name].rename(ESTIMATE).to_dict()
        for column, value in effect_columns(line, c.secrecy, rules).items():
            table.loc[name, COLUMNS.get(column, column)] = value
        # The note of an estimate that is zero or infinite would reveal it.
        if c.secrecy.closed and not math.isnan(line["log_rr"]):
            table.loc[name, "note"] = WITHHELD
    return table


def _words(tables: dict[str, pd.DataFrame], covariate: int) -> dict[str, Word]:
    """Return the released verdicts on the diagnostics of an exposure."""
    table = tables["sccs_diagnostics_summary"]
    line = table[table["covariate_id"] == covariate].iloc[0]
    return {d.key: line[d.verdict_column] for d in SERIES if d.verdict_column in line}


def _diagnosis(
    study: ExactSeries,
    d: Diagnostics,
    words: dict[str, Word],
    counts: dict[str, CovariateCounts],
    rules: DisclosureRules,
) -> Diagnostics:
    """Return the diagnostics with released verdicts, without numbers that would reveal a count."""
    if rules.open:
        return d
    verdicts = {key: replace(v, verdict=words.get(key, v.verdict)) for key, v in d.verdicts.items()}
    columns = zip(study.intervals.names, study.intervals.columns, strict=True)
    before = [name for name, column in columns if column.pre_exposure]
    for key, names, place in (
        ("pre-exposure", before, "before exposure"),
        ("end of observation", [PROBE], "at the end"),
    ):
        secrecy = joint_secrecy([counts[name] for name in names if name in counts])
        if secrecy.closed:
            finding = f"Events just {place}: not released, because they are few."
            verdicts[key] = _withheld(verdicts[key], finding)
        elif secrecy.step:
            verdicts[key] = _rounded(verdicts[key], secrecy)
    own = counts.get(d.covariate)
    if own is not None and (own.secrecy.closed or own.secrecy.rounds(rules)):
        verdicts["detectable ratio"] = _withheld(
            verdicts["detectable ratio"],
            "Rate ratio that is detectable with a power of 80%: not released, because the number "
            "of outcomes of the exposed cases is not.",
        )
    stable = verdicts["time stability"]
    if stable.verdict == NOT_EVALUATED and d.verdicts["time stability"].verdict != NOT_EVALUATED:
        finding = (
            "The stability of the outcome's rate over calendar time is not evaluated, because it "
            "depends on outcomes that are not released."
        )
        verdicts["time stability"] = _withheld(stable, finding)
    elif not math.isnan(stable.number):
        events = int(study.attrition["events"].iloc[-1])
        ratio = in_ratio(stable.number, log_unit(events, rules.least), 2)
        p = released_p(stable.p)
        passed, limits = stable.verdict == PASS, study.settings.thresholds
        finding = stability_finding(passed, ratio, p, limits)
        verdicts["time stability"] = replace(stable, value=ratio, p=p, finding=finding)
    rare = verdicts["rarity"]
    verdicts["rarity"] = replace(rare, value=significant(rare.number, 2))
    for one in further_diagnostics(study.settings.thresholds):
        exact = verdicts[one.key]
        value = released_further(exact.number, own)
        shown = one.agreeing(value, exact.verdict, study.settings.thresholds)
        verdict = replace(exact, value=shown)
        verdicts[one.key] = replace(verdict, finding=further_finding(verdict))
    return replace(d, verdicts=verdicts)


def _rounded(verdict: Verdict, secrecy: Secrecy) -> Verdict:
    """Round a rate ratio and its limits as in the tables, and keep the verdict."""
    if verdict.verdict == NOT_EVALUATED or not verdict.limits:
        return verdict
    ends = (
        math.log(x) if x > 0 else -math.inf for x in (verdict.number, verdict.lower, verdict.upper)
    )
    effect = Effect(*secrecy.moved(*ends)).rounded(secrecy.step)
    rr, low, high = (ratio_of(x) for x in (effect.log_rr, effect.lower, effect.upper))
    overlaps = "overlaps" if verdict.verdict == PASS else "does not overlap"
    return replace(
        verdict,
        value=rr,
        lower=low,
        upper=high,
        p=significant(effect.p, 1),
        finding=f"{verdict.finding.split(':')[0]}: rate ratio {decimals(rr)} ({decimals(low)} to "
        f"{decimals(high)}), rounded; the interval {overlaps} {limit_text(verdict.limits[0])} to "
        f"{limit_text(verdict.limits[1])}.",
    )


def _withheld(verdict: Verdict, finding: str) -> Verdict:
    """Remove the numbers of a diagnostic."""
    nan = math.nan
    return replace(verdict, value=nan, lower=nan, upper=nan, p=nan, finding=finding)
