"""Release of case series: the tables that may leave, from the exact ones of one or of many."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from steropes.studies.database.data_notes import released_notes
from steropes.studies.disclosure.cells import Bound
from steropes.studies.disclosure.counts_in_text import released_notes_column
from steropes.studies.disclosure.grid_counts import column, signed
from steropes.studies.disclosure.rounding import (
    STEPS,
    Effect,
    effect_step,
    in_ratio,
    log_unit,
    significant,
    withheld,
)
from steropes.studies.disclosure.rules import DisclosureRules
from steropes.studies.results.ratios import ratio_of
from steropes.studies.sccs.sccs_results_schema import TABLES

__all__ = ["CovariateCounts", "binned", "release_series", "released_counts", "rounded_effect"]

Tables = Mapping[str, pd.DataFrame]
SET = ["analysis_id", "exposures_outcome_set_id"]
KEY = [*SET, "covariate_id"]
ATTRITION = {
    "subjects": "outcome_subjects",
    "events": "outcome_events",
    "periods": "outcome_observation_periods",
}
WITH = {"subjects": "subjects", "events": "observed_events", "periods": "periods"}
EFFECT = ("rr", "ci_95_lb", "ci_95_ub", "p", "one_sided_p", "log_rr", "se_log_rr", "llr")
PROBE, PROBE_ID = "end of observation", 99


@dataclass(frozen=True)
class CovariateCounts:
    """Released counts of a covariate, and what follows for its effect.

    Attributes
    ----------
    subjects, periods, observed_events, events : int or Bound
        Cases with the covariate, their outcomes, and those of them in the covariate's own time.
    closed : bool
        Nothing of the effect may be told.
    step : float
        Step to which the log ratio is rounded; 0 where nothing is hidden.
    shift : float
        Added to the log ratio before it is rounded, so that the result is about the same whatever
        the hidden outcomes of other windows are.
    """

    subjects: int | Bound
    periods: int | Bound
    observed_events: int | Bound
    events: int | Bound
    closed: bool
    step: float
    shift: float = 0.0


def release_series(exact: Tables, rules: DisclosureRules) -> dict[str, pd.DataFrame]:
    """Make the tables that may be released.

    The counts of all questions about an outcome are released together, since they can be
    subtracted.

    Parameters
    ----------
    exact : mapping of str to DataFrame
        Tables as `sccs.results.exact_tables` makes them, of one series or of many.
    rules : DisclosureRules

    Returns
    -------
    dict of str to DataFrame
        Columns as in ``sccs.layout.TABLES``, but for calibrated estimates, which come later.
    """
    tables = {name: table for name, table in exact.items() if name in TABLES}
    if not rules.open:
        counts = released_counts(exact, rules)
        diagnostics = exact["sccs_diagnostics_summary"]
        tables |= {
            "sccs_attrition": _attrition(exact, counts, rules),
            "sccs_result": _results(exact, counts, rules),
            "sccs_covariate_result": _effects(exact["sccs_covariate_result"], exact, counts, rules),
            "sccs_likelihood_profile": _profiles(exact["sccs_likelihood_profile"], counts, rules),
            "sccs_spline": _few_digits(exact["sccs_spline"], "rr"),
            "sccs_censor_model": _few_digits(exact["sccs_censor_model"], "parameter_value"),
            "sccs_time_trend": _trend(exact["sccs_time_trend"], rules),
            "sccs_time_to_event": _binned(
                exact["sccs_time_to_event"], ("observed_subjects", "outcomes"), rules
            ),
            **{
                name: _without_ends(
                    _binned(exact[name], ("cover_before_after_subjects",), rules),
                    "cover_before_after_subjects",
                )
                for name in ("sccs_age_spanning", "sccs_calendar_time_spanning")
            },
            "sccs_time_period": _period(exact, rules),
            "sccs_diagnostics_summary": _diagnostics(diagnostics, exact, counts, rules),
        }
        if "note" in exact:
            note = released_notes_column(exact["note"]["note"], rules)
            tables["note"] = exact["note"].assign(note=note)
        if "data_note" in exact:
            tables["data_note"] = released_notes(exact["data_note"], rules)
        if "positive_control" in exact:
            tables |= _controls(exact, rules)
    return {name: table[[c for c in TABLES[name] if c in table]] for name, table in tables.items()}


def _key(line: Any) -> tuple[int, int, int]:
    return int(line[KEY[0]]), int(line[KEY[1]]), int(line[KEY[2]])


def binned(n: int, rules: DisclosureRules) -> int:
    """A count of a long series, to the nearest ``least``; minus that where it is small."""
    n = int(n)
    if rules.open or n == 0:
        return n
    if rules.small(n):
        return -rules.least
    if rules.rounds:
        return rules.rounded(n)
    return max(rules.least, round(n / rules.least) * rules.least)


def rounded_effect(line: dict[Any, Any], step: float, shift: float = 0.0) -> dict[str, float]:
    """An effect with limits ``ci_95_lb`` and ``ci_95_ub``, rounded, and all that follows."""
    low, high = (
        math.log(x) if x > 0 else (-math.inf if x == 0 else math.nan)
        for x in (float(line["ci_95_lb"]), float(line["ci_95_ub"]))
    )
    rr = float(line["rr"])
    exact = Effect(math.log(rr) if rr > 0 else (-math.inf if rr == 0 else math.nan), low, high)
    found = Effect(exact.log_rr + shift, exact.lower + shift, exact.upper + shift).rounded(step)
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


def released_counts(
    exact: Tables, rules: DisclosureRules
) -> dict[tuple[int, int, int], CovariateCounts]:
    """Release the counts of all covariates of all series.

    All cases are told, so that neither those with a covariate nor those without it may be few; nor
    may the difference to the count of the same exposure in another analysis be.
    """
    rows = exact["covariate_count"]
    outcomes, eras = _outcomes(exact), _eras(exact)
    finals = _finals(exact)
    known: dict[tuple[Any, ...], list[int]] = {}
    found = {}
    for line in rows.to_dict("records"):
        key = _key(line)
        place = (outcomes.get(key[1], key[1]), eras.get(key, key[2]))
        final = finals.get(key[:2], {})
        told: dict[str, int | Bound] = {}
        for what in ("subjects", "periods"):
            told[what] = _of_all(int(line[what]), final.get(what), rules)
        told["observed_events"] = _of_all(int(line["observed_events"]), final.get("events"), rules)
        inside, observed = int(line["events"]), int(line["observed_events"])
        # of none inside, all observed are outside
        told["events"] = (
            _of_all(inside, final.get("events"), rules)
            if not inside or not rules.small(observed - inside)
            else Bound(max(observed, rules.least) if rules.small(inside) is False else rules.least)
        )
        for what, n in (("subjects", line["subjects"]), ("events", inside),
                        ("observed_events", observed)):  # fmt: skip
            others = known.setdefault((*place, what), [])
            if isinstance(told[what], int) and not rules.rounds:
                told[what] = rules.apart([int(n)], others)[0]
                if isinstance(told[what], int):
                    others.append(int(n))
        found[key] = _judged(line, told, exact, key, rules)
    return _with_common_baseline(found, rows, finals, rules)


def _with_common_baseline(
    found: dict[tuple[int, int, int], CovariateCounts],
    rows: pd.DataFrame,
    finals: dict[tuple[int, ...], dict[str, int]],
    rules: DisclosureRules,
) -> dict[tuple[int, int, int], CovariateCounts]:
    """Round the effects of a series in which the outcomes of another covariate are hidden.

    All covariates of a model are compared with the same remaining time. A rate ratio is a function
    of its own outcomes, days and those of the remaining time, so that full digits of it tell how
    many outcomes are in the remaining time, and hence in the window whose count is hidden.
    """
    inside = {_key(line): int(line["events"]) for line in rows.to_dict("records")}
    for series in {key[:2] for key in found}:
        own = [key for key in found if key[:2] == series]
        hidden = [k for k in own if found[k].closed or isinstance(found[k].events, Bound)]
        if not hidden:
            continue
        rest = finals.get(series, {}).get("events", 0) - sum(inside[key] for key in own)
        step = min(log_unit(rest, rules.least), STEPS[-1])
        middle = sum(_middle(found[k], inside[k], rules.least) - inside[k] for k in hidden)
        shift = math.log(rest / (rest - middle)) if rest > max(0.0, middle) else 0.0
        for key in own:
            if hidden != [key]:
                found[key] = replace(found[key], step=max(found[key].step, step), shift=shift)
    return found


def _middle(counts: CovariateCounts, inside: int, least: int) -> float:
    """The middle of the numbers of outcomes that a hidden count may be."""
    if not isinstance(counts.events, Bound):
        return inside
    return float(counts.events.limit) - least / 2


def _of_all(n: int, of: int | None, rules: DisclosureRules) -> int | Bound:
    return rules.count(n) if of is None else rules.part(n, of)


def _judged(
    line: dict[Any, Any],
    told: dict[str, int | Bound],
    exact: Tables,
    key: tuple[int, int, int],
    rules: DisclosureRules,
) -> CovariateCounts:
    inside, observed = int(line["events"]), int(line["observed_events"])
    compared = int(line["compared_events"])
    closed = withheld(
        [(inside, observed), (min(inside, compared), max(compared, inside))], rules.least
    )
    closed |= rules.small(line["subjects"]) or rules.small(compared)
    hidden = [
        n
        for n, what in ((inside, "events"), (observed, "observed_events"))
        if rules.rounds or isinstance(told[what], Bound)
    ]
    people = [int(line["subjects"])] if rules.rounds or isinstance(told["subjects"], Bound) else []
    step = effect_step(_error(exact, key), rules.least, events=hidden, people=people)
    return CovariateCounts(
        told["subjects"],
        told["periods"],
        told["observed_events"],
        told["events"],
        closed=closed,
        step=step,
    )


def _error(exact: Tables, key: tuple[int, int, int]) -> float:
    """Half the width of an interval of a log ratio over 1.96, as far as it is finite."""
    table = exact["sccs_covariate_result"]
    of = table[(table[KEY] == list(key)).all(axis=1)] if len(table) else table
    if of.empty:
        return math.nan
    low, high = float(of["ci_95_lb"].iloc[0]), float(of["ci_95_ub"].iloc[0])
    if not (0 < low < math.inf and 0 < high < math.inf):
        return math.nan
    return (math.log(high) - math.log(low)) / 3.92


def _outcomes(exact: Tables) -> dict[int, int]:
    table = exact["sccs_exposures_outcome_set"]
    return {int(s): int(o) for s, o in table[[SET[1], "outcome_id"]].itertuples(index=False)}


def _eras(exact: Tables) -> dict[tuple[int, int, int], Any]:
    """The covariate of another analysis that has the same name is of the same exposure."""
    table = exact["sccs_covariate"]
    return {
        _key(line): (int(line["era_id"] or 0), str(line["covariate_name"]))
        for line in table.to_dict("records")
    }


def _finals(exact: Tables) -> dict[tuple[int, ...], dict[str, int]]:
    """The cases of each series, whom the last rule leaves."""
    table = exact["sccs_result"]
    found: dict[tuple[int, ...], dict[str, int]] = {}
    for line in table.to_dict("records"):
        key = (int(line[SET[0]]), int(line[SET[1]]))
        found[key] = {what: int(line[name]) for what, name in ATTRITION.items()}
    return found


def _attrition(
    exact: Tables,
    counts: dict[tuple[int, int, int], CovariateCounts],
    rules: DisclosureRules,
) -> pd.DataFrame:
    """What the rules leave of the cases of each outcome, and those with the covariate."""
    table = exact["sccs_attrition"].reset_index(drop=True)
    if table.empty:
        return table
    outcomes = table[SET[1]].map(_outcomes(exact))
    last = table.groupby(KEY)["sequence_number"].transform("max")
    own, final = table["sequence_number"] == last, table["sequence_number"] == last - 1
    found: dict[str, list[int | Bound | None]] = {
        name: [None] * len(table) for name in ATTRITION.values()
    }
    for what, name in ATTRITION.items():
        for outcome in outcomes.unique():
            of = outcomes == outcome
            first, rest = table.index[of & final], table.index[of & ~own & ~final]
            rows = [*first, *rest]
            values = rules.apart([int(table.at[r, name]) for r in rows])
            for r, value in zip(rows, values, strict=True):
                found[name][r] = value
        for r in table.index[own]:
            key = _key(table.loc[r])
            found[name][r] = getattr(counts[key], WITH[what]) if key in counts else None
    bounds = np.array(
        [any(not isinstance(found[n][r], int) for n in found) for r in table.index], dtype=bool
    )
    days = table["observed_days"].astype(float).mask(bounds)
    return table.assign(
        **{n: column(v) for n, v in found.items()}, observed_days=_days(days, rules)
    )


def _days(days: pd.Series, rules: DisclosureRules) -> Any:
    if rules.rounds:
        days = days.map(significant)
    return days if days.isna().any() else days.astype(np.int64)


def _results(
    exact: Tables,
    counts: dict[tuple[int, int, int], CovariateCounts],
    rules: DisclosureRules,
) -> pd.DataFrame:
    table = exact["sccs_result"]
    attrition = _attrition(exact, counts, rules)
    finals = {}
    if len(attrition):
        last = attrition.groupby(KEY)["sequence_number"].transform("max")
        for line in attrition[attrition["sequence_number"] == last - 1].to_dict("records"):
            finals[_key(line)] = line
    lines = []
    for line in table.to_dict("records"):
        key = _key(line)
        c, final = counts.get(key), finals.get(key)
        if final is not None:
            line |= {n: final[n] for n in (*ATTRITION.values(), "observed_days")}
        if c is not None:
            eras, subjects = int(line["covariate_eras"]), int(line["covariate_subjects"])
            bound = isinstance(c.subjects, Bound)
            told = rules.apart([eras], [] if bound else [subjects])[0]
            line["covariate_eras"] = math.nan if bound else signed(told)
            if bound or isinstance(c.events, Bound):
                line["covariate_days"] = math.nan
            elif rules.rounds:
                line["covariate_days"] = significant(float(line["covariate_days"]))
            line["covariate_subjects"] = signed(c.subjects)
            line["covariate_outcomes"] = signed(c.events)
            line |= _effect(line, c, rules)
        lines.append(line)
    return _whole(pd.DataFrame(lines, columns=list(table.columns)))


def _whole(table: pd.DataFrame) -> pd.DataFrame:
    """Whole numbers where no count is missing."""
    for name in table:
        if str(name).startswith(("outcome_", "covariate_", "observed_")):
            values = table[name].astype(float)
            table[name] = values if values.isna().any() else values.astype(np.int64)
    return table


def _effect(line: dict[Any, Any], c: CovariateCounts, rules: DisclosureRules) -> dict[str, float]:
    if c.closed:
        return {name: math.nan for name in EFFECT if name in line}
    if c.step or rules.rounds:
        return rounded_effect(line, c.step, c.shift)
    return {}


def _effects(
    table: pd.DataFrame,
    exact: Tables,
    counts: dict[tuple[int, int, int], CovariateCounts],
    rules: DisclosureRules,
) -> pd.DataFrame:
    """Rate ratios of all covariates; those of splines, which are of nobody in particular, stay."""
    lines = []
    for line in table.to_dict("records"):
        c = counts.get(_key(line))
        if c is None:
            line |= {n: significant(float(line[n])) for n in ("rr", "ci_95_lb", "ci_95_ub")}
        else:
            line |= _effect(line, c, rules)
        lines.append(line)
    return pd.DataFrame(lines, columns=list(table.columns)) if lines else table


def _profiles(
    table: pd.DataFrame,
    counts: dict[tuple[int, int, int], CovariateCounts],
    rules: DisclosureRules,
) -> pd.DataFrame:
    """Likelihood profiles of covariates of which nothing is hidden: their slopes count outcomes."""
    if table.empty:
        return table
    kept = [
        not (c.closed or c.step or rules.rounds)
        for c in (counts[_key(line)] for line in table[KEY].to_dict("records"))
    ]
    return table[np.array(kept, dtype=bool)].reset_index(drop=True)


def _few_digits(table: pd.DataFrame, name: str) -> pd.DataFrame:
    return table.assign(**{name: table[name].map(lambda x: significant(float(x)))})


def _binned(table: pd.DataFrame, names: tuple[str, ...], rules: DisclosureRules) -> pd.DataFrame:
    return table.assign(**{n: [binned(x, rules) for x in table[n]] for n in names})


def _trend(table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Observed over expected outcomes of months that have enough of them, or none.

    Ratios of all months but one would give the outcomes of that month, as the total is released.
    """
    few = table["observed_outcomes"].map(lambda n: rules.small(int(n))).astype(bool)
    few |= table["observed_subjects"].map(lambda n: rules.small(int(n))).astype(bool)
    found = _binned(table, ("observed_subjects",), rules)
    if found.empty:
        return found
    for name in ("ratio", "adjusted_ratio"):
        rounded = pd.Series(
            [
                in_ratio(float(x), 0.0 if n == 0 else log_unit(int(n), rules.least), 2)
                for x, n in zip(table[name], table["observed_outcomes"], strict=True)
            ],
            index=table.index,
            dtype=float,
        )
        found[name] = rounded.mask(few)
    return _without_ends(found, "observed_subjects")


def _without_ends(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Without the first and last months of each series, which are of few people or of nobody.

    The first month in which anybody is observed, at any age, is one person's.
    """
    enough = table[name] > 0
    of = enough.groupby([table[k] for k in SET])
    kept = of.cummax() & enough[::-1].groupby([table[k] for k in SET]).cummax()[::-1]
    return table[kept].reset_index(drop=True)


def _period(exact: Tables, rules: DisclosureRules) -> pd.DataFrame:
    """The years in which enough cases are observed: first and last days are of single people."""
    table, spans = exact["sccs_time_period"], exact["sccs_calendar_time_spanning"]
    lines = []
    for line in table.to_dict("records"):
        of = spans[(spans[SET] == [line[k] for k in SET]).all(axis=1)]
        years = of.loc[of["cover_before_after_subjects"] >= rules.least, "calendar_year"]
        known = len(years) > 0
        line["min_date"] = f"{int(years.min())}-01-01" if known else None
        line["max_date"] = f"{int(years.max())}-12-31" if known else None
        lines.append(line)
    return pd.DataFrame(lines, columns=list(table.columns)) if lines else table


def _diagnostics(
    table: pd.DataFrame,
    exact: Tables,
    counts: dict[tuple[int, int, int], CovariateCounts],
    rules: DisclosureRules,
) -> pd.DataFrame:
    """Diagnostics without numbers from which a count would follow; verdicts are of exact ones."""
    before = _before(exact)
    lines = []
    for line in table.to_dict("records"):
        key = _key(line)
        c, probe = counts.get(key), counts.get((key[0], key[1], PROBE_ID))
        own = [counts[k] for k in before.get(key[:2], ()) if k in counts]
        for name, of in (("event_exposure", own), ("event_observation", [probe] if probe else [])):
            ends = (f"{name}_lb", f"{name}_ub")
            if any(x.closed for x in of):
                line |= dict.fromkeys(ends, math.nan)
            else:
                step = max((x.step for x in of), default=0.0)
                digits = 2 if step or rules.rounds else 3
                factor = math.exp(of[0].shift) if of else 1.0
                line |= {e: in_ratio(factor * float(line[e]), step, digits) for e in ends}
        line["time_stability_p"] = significant(float(line["time_stability_p"]), 2)
        line["rare_outcome_prevalence"] = significant(float(line["rare_outcome_prevalence"]), 2)
        if c is not None and (c.closed or c.step):
            line["mdrr"] = math.nan
        lines.append(line)
    return pd.DataFrame(lines, columns=list(table.columns)) if lines else table


def _before(exact: Tables) -> dict[tuple[int, int], list[tuple[int, int, int]]]:
    """The covariates of each series that are no exposure of interest: windows before it are."""
    results = {_key(line) for line in exact["sccs_result"][KEY].to_dict("records")}
    found: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for line in exact["covariate_count"][KEY].to_dict("records"):
        key = _key(line)
        if key not in results and key[2] != PROBE_ID:
            found.setdefault(key[:2], []).append(key)
    return found


def _controls(exact: Tables, rules: DisclosureRules) -> dict[str, pd.DataFrame]:
    made, asked = exact["positive_control"], exact["sccs_exposure"]

    def four(x: Any) -> float:
        return math.nan if x is None or pd.isna(x) else significant(float(x), 4)

    return {
        "positive_control": made.assign(
            true_effect_size=made["true_effect_size"].map(four),
            **{
                name: column(rules.count(int(n)) for n in made[name])
                for name in ("outcomes_before", "outcomes_added")
            },
        ),
        "sccs_exposure": asked.assign(true_effect_size=asked["true_effect_size"].map(four)),
    }
