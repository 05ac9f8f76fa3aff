"""Tables of case series for release, of one study or of a grid, with small counts suppressed."""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Any

import numpy as np
import pandas as pd

from steropes.designs.case_series.detectable_ratio import minimal_detectable_ratio
from steropes.studies.database.data_quality_notes import released_notes
from steropes.studies.diagnostics.diagnostic import FAIL, NOT_EVALUATED, PASS, Word, allows
from steropes.studies.diagnostics.diagnostic_catalogue import SERIES, further_diagnostics
from steropes.studies.disclosure.counts_in_text import released_notes_column
from steropes.studies.disclosure.disclosive_digit_rounding import in_ratio, significant
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.effect_suppression import (
    WITHHELD,
    Secrecy,
    effect_columns,
    released_controls,
    released_truth,
)
from steropes.studies.disclosure.released_table_rows import column, each_row, signed
from steropes.studies.disclosure.small_cell_suppression import Bound
from steropes.studies.disclosure.sums_over_people import released_sums
from steropes.studies.release.joint_series_counts import (
    KEY,
    OUTCOMES,
    SET,
    Key,
    SeriesCounts,
    Tables,
    final_rows,
    key_of,
    released_series_counts,
)
from steropes.studies.release.series_covariate_counts import (
    CovariateCounts,
    few_in_months,
    released_covariates,
)
from steropes.studies.release.series_over_time import binned, released_trend, without_ends
from steropes.studies.release.series_weeks import released_weeks
from steropes.studies.result_files.sccs_results_schema import TABLES
from steropes.studies.sccs.results.sccs_result_tables import PROBE_ID
from steropes.studies.sccs.specification.sccs_thresholds import Thresholds

__all__ = [
    "covariate_days",
    "has_profile",
    "joint_secrecy",
    "release_series",
    "released_further",
    "released_p",
]

WITH = {"subjects": "subjects", "events": "observed_events", "periods": "periods"}
SPANS = {
    "sccs_age_spanning": "cover_before_after_subjects",
    "sccs_calendar_time_spanning": "cover_before_after_subjects",
}
SMALLEST_P = 0.001  # Pages show smaller ones as "< 0.001".
Row = dict[Any, Any]
Counts = dict[Key, CovariateCounts]


def release_series(
    exact: Tables, rules: DisclosureRules, thresholds: Thresholds, counts: Counts | None = None
) -> dict[str, pd.DataFrame]:
    """Make the tables for release.

    The counts of all questions about an outcome are released together, because they can be
    subtracted.

    Parameters
    ----------
    exact : mapping of str to DataFrame
        Tables of `exact_tables`, of one series or of many.
    thresholds : Thresholds
        Limits of the diagnostics.
    counts : dict, optional
        The result of `released_covariates` for these tables, if it is known.

    Returns
    -------
    dict of str to DataFrame
        Columns as in ``sccs_results_schema.TABLES``, without calibrated estimates, which follow
        from released ones.
    """
    tables = {name: table for name, table in exact.items() if name in TABLES}
    if not rules.open:
        told = released_series_counts(exact, rules)
        counts = released_covariates(exact, rules, told) if counts is None else counts
        attrition, few = _attrition(exact, told, counts, rules), few_in_months(exact, counts, rules)
        tables |= {
            "sccs_attrition": attrition,
            "sccs_result": _results(exact["sccs_result"], attrition, counts, rules),
            "sccs_covariate_result": _effects(exact["sccs_covariate_result"], counts, rules),
            "sccs_likelihood_profile": _profiles(exact["sccs_likelihood_profile"], counts, rules),
            "sccs_spline": _few_digits(exact["sccs_spline"], "rr"),
            "sccs_censor_model": _few_digits(exact["sccs_censor_model"], "parameter_value"),
            "sccs_time_trend": released_trend(exact["sccs_time_trend"], few, rules),
            "sccs_time_to_event": released_weeks(exact, counts, rules),
            **{n: without_ends(binned(exact[n], (c,), rules), c) for n, c in SPANS.items()},
            "sccs_time_period": _period(exact, rules),
            "sccs_diagnostics_summary": _diagnostics(exact, counts, few, thresholds, rules),
            "sccs_further_diagnostic": _further(exact, counts),
        }
        if "note" in exact:
            tables["note"] = _notes(exact, counts, rules)
        if "data_note" in exact:
            tables["data_note"] = released_notes(exact["data_note"], rules)
        if "positive_control" in exact:
            tables["positive_control"] = released_controls(exact["positive_control"], rules)
            tables["sccs_exposure"] = released_truth(exact["sccs_exposure"])
    return {name: table[[c for c in TABLES[name] if c in table]] for name, table in tables.items()}


def _notes(exact: Tables, counts: Counts, rules: DisclosureRules) -> pd.DataFrame:
    """Release the notes of series, with the reason of withheld estimates of interest."""
    found = exact["note"].assign(note=released_notes_column(exact["note"]["note"], rules))
    withheld: dict[tuple[int, ...], list[bool]] = {}
    for line in exact["sccs_result"].to_dict("records"):
        key = key_of(line)
        hidden = key in counts and counts[key].secrecy.closed and not pd.isna(line["log_rr"])
        withheld.setdefault(key[:2], []).append(hidden)
    texts = []
    for line in found.to_dict("records"):
        marks, own = withheld.get((int(line[SET[0]]), int(line[SET[1]])), []), line["note"]
        parts = [own] if isinstance(own, str) and own else []
        if any(marks):  # The note of an infinite estimate that is withheld would reveal it.
            several = f"{sum(marks)} of {len(marks)} estimates " if len(marks) > 1 else ""
            parts = [*(parts if not all(marks) else []), f"{several}{WITHHELD}"]
        texts.append("; ".join(parts))
    return found.assign(note=texts)


def has_profile(counts: CovariateCounts, rules: DisclosureRules) -> bool:
    """Check whether a profile may be released: its slopes count outcomes."""
    return rules.open or not (counts.secrecy.closed or counts.secrecy.rounds(rules))


def covariate_days(
    days: float, subjects: int, counts: CovariateCounts, rules: DisclosureRules
) -> float:
    """Release the days of a covariate; missing where its subjects or outcomes are suppressed."""
    if isinstance(counts.subjects, Bound) or isinstance(counts.events, Bound):
        return math.nan
    if not rules.rounds:
        return float(days)
    return float(released_sums([days], [subjects], [counts.subjects], rules).iloc[0])


def released_p(p: float) -> float:
    """Release a p value of all months: one digit, and none for very small ones.

    The logarithm of a p value is a sum over months, so that each further digit narrows the outcomes
    of months that are withheld.
    """
    return significant(max(p, SMALLEST_P), 1)


def joint_secrecy(of: list[CovariateCounts]) -> Secrecy:
    """Return the secrecy of a number that depends on several covariates."""
    return Secrecy(
        any(c.secrecy.closed for c in of),
        max((c.secrecy.step for c in of), default=0.0),
        shift=of[0].secrecy.shift if of else 0.0,
        ends=of[0].secrecy.ends if of else (0.0, 0.0),
    )


def _attrition(
    exact: Tables, told: SeriesCounts, counts: Counts, rules: DisclosureRules
) -> pd.DataFrame:
    """Release the cases that each rule leaves, and those with the covariate of interest."""
    table = exact["sccs_attrition"].reset_index(drop=True)
    if table.empty:
        return table
    found: dict[str, list[int | Bound | None]] = {n: [None] * len(table) for n in OUTCOMES.values()}
    for r in table.index:
        key = key_of(table.loc[r])
        for of, name in OUTCOMES.items():
            own = getattr(counts[key], WITH[of]) if key in counts else None
            found[name][r] = told.cases[of].get(r, own)
    bounds = [any(not isinstance(found[n][r], int) for n in found) for r in table.index]
    days = table["observed_days"].astype(float)
    if rules.rounds:
        cases = OUTCOMES["subjects"]
        days = released_sums(days, table[cases], column(found[cases]), rules)
    days = days.mask(np.array(bounds, dtype=bool))
    whole = days if days.isna().any() else days.astype(np.int64)
    return table.assign(**{n: column(v) for n, v in found.items()}, observed_days=whole)


def _results(
    table: pd.DataFrame, attrition: pd.DataFrame, counts: Counts, rules: DisclosureRules
) -> pd.DataFrame:
    """Release the estimates of interest, with the counts of the table of attrition."""
    finals = {}
    if len(attrition):
        rows = attrition[final_rows(attrition, counts)].to_dict("records")
        finals = {key_of(line): line for line in rows}

    def released(line: Row) -> Row:
        """Release the counts and the effect of one exposure."""
        c, final = counts.get(key_of(line)), finals.get(key_of(line))
        if final is not None:
            line |= {n: final[n] for n in (*OUTCOMES.values(), "observed_days")}
        if c is None:
            return line
        eras, subjects = int(line["covariate_eras"]), int(line["covariate_subjects"])
        bound = isinstance(c.subjects, Bound)
        apart = rules.apart([eras], [] if bound else [subjects])[0]
        line["covariate_eras"] = math.nan if bound else signed(apart)
        line["covariate_days"] = covariate_days(line["covariate_days"], subjects, c, rules)
        line |= {"covariate_subjects": signed(c.subjects), "covariate_outcomes": signed(c.events)}
        return line | effect_columns(line, c.secrecy, rules)

    found = each_row(table, released)
    for name in found:  # Counts are integers unless one is missing.
        if str(name).startswith(("outcome_", "covariate_", "observed_")):
            values = found[name].astype(float)
            found[name] = values if values.isna().any() else values.astype(np.int64)
    return found


def _effects(table: pd.DataFrame, counts: Counts, rules: DisclosureRules) -> pd.DataFrame:
    """Release the rate ratios of all covariates; those of splines describe no group of people."""

    def released(line: Row) -> Row:
        """Release the rate ratio of one covariate."""
        c = counts.get(key_of(line))
        if c is None:
            return line | {n: significant(float(line[n])) for n in ("rr", "ci_95_lb", "ci_95_ub")}
        return line | effect_columns(line, c.secrecy, rules)

    return each_row(table, released)


def _profiles(table: pd.DataFrame, counts: Counts, rules: DisclosureRules) -> pd.DataFrame:
    """Release the likelihood profiles of covariates without suppressed counts."""
    rows = table[KEY].to_dict("records")
    kept = np.array([has_profile(counts[key_of(line)], rules) for line in rows], dtype=bool)
    return table[kept].reset_index(drop=True)


def _few_digits(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Round a column to three significant digits."""
    return table.assign(**{name: table[name].map(lambda x: significant(float(x)))})


def _period(exact: Tables, rules: DisclosureRules) -> pd.DataFrame:
    """Release the years in which enough cases are observed; exact days are of single people."""
    spans = exact["sccs_calendar_time_spanning"]
    enough = spans[spans["cover_before_after_subjects"] >= rules.least]
    years = enough.groupby(SET)["calendar_year"].agg(["min", "max"]).to_dict("index")

    def released(line: Row) -> Row:
        """Replace the first and last day of one series."""
        of = years.get(tuple(line[k] for k in SET))
        line["min_date"] = None if of is None else f"{int(of['min'])}-01-01"
        line["max_date"] = None if of is None else f"{int(of['max'])}-12-31"
        return line

    return each_row(exact["sccs_time_period"], released)


def _diagnostics(
    exact: Tables,
    counts: Counts,
    few: Container[tuple[int, int]],
    thresholds: Thresholds,
    rules: DisclosureRules,
) -> pd.DataFrame:
    """Round diagnostics that would reveal counts, and judge which estimates may be shown.

    The intervals of windows are judged as they are rounded, or in the middle of the hidden numbers.
    The stability over time is not evaluated where it depends on hidden outcomes.
    """
    windows = exact["sccs_covariate"].merge(
        exact["sccs_covariate_analysis"], on=["analysis_id", "covariate_analysis_id"]
    )
    numbers = {key_of(line): line for line in exact["covariate_count"].to_dict("records")}
    before: dict[tuple[int, ...], list[CovariateCounts]] = {}
    for line in windows[windows["pre_exposure"] == 1][KEY].to_dict("records"):
        if (key := key_of(line)) in counts:
            before.setdefault(key[:2], []).append(counts[key])

    def released(line: Row) -> Row:
        """Round or remove the numbers of one exposure."""
        key = key_of(line)
        own, probe = counts.get(key), counts.get((*key[:2], PROBE_ID))
        for name, of, bounds in (
            ("event_exposure", joint_secrecy(before.get(key[:2], [])), thresholds.pre_exposure),
            (
                "event_observation",
                joint_secrecy([] if probe is None else [probe]),
                thresholds.end_of_observation,
            ),
        ):
            digits, ends = 2 if of.rounds(rules) else 3, []
            for end, by in zip((f"{name}_lb", f"{name}_ub"), of.ends, strict=True):
                value = in_ratio(math.exp(of.shift + by) * float(line[end]), of.step, digits)
                line[end] = math.nan if of.closed else value
                ends.append(value)
            word = f"{name}_diagnostic"
            if line[word] != NOT_EVALUATED and (of.closed or of.step):
                line[word] = PASS if ends[0] <= bounds[1] and ends[1] >= bounds[0] else FAIL
        line["time_stability_p"] = released_p(float(line["time_stability_p"]))
        if key[:2] in few:
            line |= {"time_stability_p": math.nan, "time_stability_diagnostic": NOT_EVALUATED}
        line["rare_outcome_prevalence"] = significant(float(line["rare_outcome_prevalence"]), 2)
        if own is not None and (own.secrecy.closed or own.secrecy.step):
            line["mdrr"] = math.nan
            if line["mdrr_diagnostic"] != NOT_EVALUATED:
                line["mdrr_diagnostic"] = _power(own, numbers[key], thresholds, rules)
        return line

    table = exact["sccs_diagnostics_summary"]
    return _with_uses(each_row(table, released), table, exact, thresholds)


def _power(
    own: CovariateCounts, exact: Row, thresholds: Thresholds, rules: DisclosureRules
) -> Word:
    """Judge the detectable ratio by the fewest outcomes for which a released number can stand.

    The verdict on the exact number would tell on which side of a limit a suppressed one is.
    """
    all_are_compared = exact["compared_events"] == exact["observed_events"]
    shown = own.observed_events if all_are_compared else own.events
    events = max(int(shown.limit) - rules.least, 1) if isinstance(shown, Bound) else shown
    total = float(exact["compared_total"])
    share = float(exact["compared_days"]) / total if total else 0.0
    return PASS if minimal_detectable_ratio(share, events) < thresholds.detectable else FAIL


def _with_uses(
    table: pd.DataFrame, before: pd.DataFrame, exact: Tables, thresholds: Thresholds
) -> pd.DataFrame:
    """Mark which estimates may be shown and combined, where verdicts differ from the exact ones."""
    fits = exact["note"].set_index(SET)["convergence_diagnostic"]
    further = {d.key: d.guards for d in further_diagnostics(thresholds)}
    found = table.copy()
    for i, line in zip(found.index, table.to_dict("records"), strict=True):
        if all(line[d.verdict_column] == before.at[i, d.verdict_column] for d in SERIES
               if d.verdict_column in line):  # fmt: skip
            continue
        words = [(d.guards, line.get(d.verdict_column, fits.get(key_of(line)[:2])))
                 for d in SERIES]  # fmt: skip
        added = exact["sccs_further_diagnostic"]
        own = added[(added[KEY] == key_of(line)).all(axis=1)]
        words += [(further[k], word) for k, word in zip(own["diagnostic"], own["verdict"],
                                                         strict=True)]  # fmt: skip
        found.loc[i, "unblind"] = int(allows("viewing", words))
        found.loc[i, "unblind_for_evidence_synthesis"] = int(allows("synthesis", words))
    return found


def _further(exact: Tables, counts: Counts) -> pd.DataFrame:
    """Round the diagnostics that a specification adds; remove those of few exposed outcomes."""

    def released(line: Row) -> Row:
        """Round or remove the value of one exposure."""
        line["value"] = released_further(float(line["value"]), counts.get(key_of(line)))
        return line

    return each_row(exact["sccs_further_diagnostic"], released)


def released_further(value: float, counts: CovariateCounts | None) -> float:
    """Round a diagnostic that a specification adds; NaN if the exposure has few outcomes."""
    few = counts is not None and (counts.secrecy.closed or bool(counts.secrecy.step))
    return math.nan if few or not math.isfinite(value) else significant(value, 2)
