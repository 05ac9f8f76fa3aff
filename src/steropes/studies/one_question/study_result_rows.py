"""Rows of the results of a study of one question, before or after suppression of small counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from steropes.designs.effects.events_and_curves_by_arm import DAYS_PER_YEAR, poisson_rate
from steropes.studies.disclosure.disclosive_digit_rounding import significant
from steropes.studies.disclosure.released_table_rows import cell
from steropes.studies.disclosure.small_cell_suppression import Bound, small, total
from steropes.studies.specifications.one_question_specification import (
    ALTERNATIVES,
    COMPARATOR,
    CRUDE,
    MAIN,
    MATCHED,
    OUTCOME,
    OWN_SCORES,
    TARGET,
)

__all__ = [
    "ARMS",
    "QUANTILES",
    "RATIOS",
    "adjustment_lines",
    "attrition_lines",
    "balance_lines",
    "follow_up_lines",
    "hazard_lines",
    "of_main",
    "of_outcome",
    "outcome_lines",
    "rate_lines",
    "result_lines",
]

Tables = Mapping[str, pd.DataFrame]
ARMS = {"target": TARGET, "comparator": COMPARATOR}
# The hazard ratios of a study and the groups of its people, by the ids of their analyses.
RATIOS = {"crude": CRUDE, "matched": MATCHED, "matched, stratified": MAIN}
GROUPS = {"all": CRUDE, "matched": MAIN}
# The estimands of these hazard ratios; matched pairs represent the matched people only.
ESTIMANDS = {"crude": "ate", "matched": "atm", "matched, stratified": "atm"}
# The numbers of an estimate, by their columns in result tables.
EFFECT = {
    "hr": "rr",
    "lower": "ci_95_lb",
    "upper": "ci_95_ub",
    "p": "p",
    "log_hr": "log_rr",
    "se": "se_log_rr",
}
QUANTILES = {"p10": "p_10", "p25": "p_25", "p50": "median", "p75": "p_75", "p90": "p_90"}


def of_outcome(tables: Tables, others: bool = False) -> dict[str, pd.DataFrame]:
    """Return the tables with the rows of the main outcome alone, or of all other outcomes."""
    found = dict(tables)
    for name, table in tables.items():
        if "outcome_id" in table and name != "cm_target_comparator_outcome":
            found[name] = table[(table["outcome_id"] != OUTCOME) == others]
    return found


def outcome_lines(tables: Tables) -> list[dict[str, object]]:
    """Return the estimates of the main analysis for all outcomes and controls, if it has several.

    Notes are reasons for a missing effect; the calibrated effect is missing without controls.
    """
    results = of_main(tables, "cm_result").set_index("outcome_id")
    if len(results) < 2:
        return []
    names = tables["cohort"].set_index("cohort_id")["name"]
    checks = of_main(tables, "cm_diagnostics_summary").set_index("outcome_id")
    notes = of_main(tables, "note").set_index("outcome_id")
    lines = []
    for asked in tables["cm_target_comparator_outcome"].to_dict("records"):
        outcome = int(asked["outcome_id"])
        of = {str(k): v for k, v in results.loc[outcome].items()}
        counts = {
            f"{arm}_{c}": cell(of[f"{arm}_{c}"]) for c in ("subjects", "outcomes") for arm in ARMS
        }
        effect = _effect({**of, **notes.loc[outcome].to_dict()})
        calibrated = {
            f"calibrated_{own}": math.nan if effect["note"] else _number(of[f"calibrated_{c}"])
            for own, c in EFFECT.items()
            if own not in ("log_hr", "se")
        }
        lines.append(
            {
                "outcome": names[outcome],
                "role": "outcome" if asked["outcome_of_interest"] == 1 else "negative control",
                **counts,
                **{k: v for k, v in effect.items() if k not in ("log_hr", "se", "note")},
                **calibrated,
                "note": effect["note"],
                "passes": bool(checks.at[outcome, "unblind"]),
            }
        )
    return lines


def result_lines(tables: Tables) -> dict[int, dict[str, Any]]:
    """Return the result of each analysis with its diagnostics and notes."""
    found: dict[int, dict[str, Any]] = {}
    for name in ("cm_diagnostics_summary", "note", "cm_result"):
        for line in tables[name].to_dict("records"):
            of = found.setdefault(int(line["analysis_id"]), {})
            of.update((str(k), v) for k, v in line.items())
    return found


def of_main(tables: Tables, name: str) -> pd.DataFrame:
    """Return the rows of a table that belong to the main analysis."""
    table = tables[name]
    return table[table["analysis_id"] == MAIN]


def attrition_lines(
    tables: Tables, analysis: int = MAIN, least: int = 0
) -> list[dict[str, object]]:
    """Return the people that each rule of an analysis leaves and drops in each arm.

    Numbers of dropped people are differences of two numbers in the table; a difference of fewer
    than ``least`` people is missing.
    """
    table = tables["cm_attrition"]
    of = table[table["analysis_id"] == analysis]
    if of.empty:  # The study ended before this analysis.
        of = table[table["analysis_id"] == CRUDE]
    of = of.sort_values("sequence_number", kind="stable")
    arms = {arm: of[of["exposure_id"] == exposure] for arm, exposure in ARMS.items()}
    left = {arm: [cell(n) for n in lines["subjects"]] for arm, lines in arms.items()}
    found = []
    for k, rule in enumerate(arms["target"]["description"]):
        line: dict[str, Any] = {"rule": rule}
        for arm, counts in left.items():
            gone = _difference(counts[k - 1], counts[k], least) if k else 0
            line |= {arm: counts[k], f"{arm}_dropped": gone}
        found.append(line)
    return found


def _difference(
    before: int | Bound | None, after: int | Bound | None, least: int
) -> int | Bound | None:
    """Subtract two released counts; None if the difference is unknown or small."""
    if not isinstance(after, int) or before is None:
        return None
    if isinstance(before, Bound):
        return Bound(int(before.limit) - after)
    return None if small(before - after, least) else before - after


def rate_lines(
    tables: Tables, digits: int | None = None
) -> list[dict[str, str | int | Bound | float | None]]:
    """Return people, person-years, events and rates of each arm, before and after matching.

    Person-years and rates are rounded to significant digits if ``digits`` is given.
    """
    results, lines = result_lines(tables), []
    for group, analysis in GROUPS.items():
        for arm in ARMS:
            of = results[analysis]
            events = cell(of[f"{arm}_outcomes"])
            years = _number(of[f"{arm}_days"]) / DAYS_PER_YEAR
            numbers = {"person_years": years}
            rates = [math.nan] * 3
            if isinstance(events, int) and math.isfinite(years):
                rates = [*poisson_rate(events, years)]
            numbers |= dict(zip(("rate", "rate_lower", "rate_upper"), rates, strict=True))
            if digits is not None:
                numbers = {name: significant(x, digits) for name, x in numbers.items()}
            known = {name: None if math.isnan(x) else x for name, x in numbers.items()}
            people = cell(of[f"{arm}_subjects"])
            line = {"analysis": group, "arm": arm, "people": people}
            lines.append({**line, "person_years": known.pop("person_years"), "events": events})
            lines[-1] |= known
    return lines


def hazard_lines(tables: Tables) -> list[dict[str, object]]:
    """Return the crude, the matched and the main hazard ratio, with people and events."""
    results = result_lines(tables)
    return [
        {
            "analysis": name,
            "estimand": ESTIMANDS[name],
            "people": _total(results[analysis], "people", "subjects"),
            "events": _total(results[analysis], "events", "outcomes"),
            **_effect(results[analysis]),
        }
        for name, analysis in RATIOS.items()
    ]


def adjustment_lines(tables: Tables) -> list[dict[str, object]]:
    """Return the estimates of the alternative adjustments, if people have scores."""
    results = result_lines(tables)
    lines = []
    for number, name in {**ALTERNATIVES, **OWN_SCORES}.items():
        if number in results:
            found = _effect(results[number])
            effect = {k: v for k, v in found.items() if k not in ("log_hr", "se")}
            estimand = results[number]["target_estimator"]
            lines.append({"analysis": name, "estimand": estimand, **effect})
    return lines


def risk_lines(tables: Tables, days: Mapping[int, int]) -> list[dict[str, object]]:
    """Return the risks of both drugs by each day, with their difference and ratio.

    Parameters
    ----------
    days : mapping of int to int
        The day of each analysis of risks, by its id.
    """
    results, absolute = result_lines(tables), tables["absolute_effect"].set_index("analysis_id")
    lines = []
    for number, day in days.items():
        if number not in results:
            continue
        found = _effect(results[number])
        risks = absolute.loc[number].to_dict() if number in absolute.index else {}
        names = [f"{arm}_risk" for arm in ARMS] + [
            f"risk_difference{e}" for e in ("", "_lb", "_ub")
        ]
        values: dict[str, object] = {name: _number(risks.get(name)) for name in names}
        ratio = {"risk_ratio": found["hr"], **{k: found[k] for k in ("lower", "upper", "p")}}
        lines.append({"day": day, **values, **ratio, "note": found["note"]})
    return lines


def balance_lines(tables: Tables) -> list[dict[str, object]]:
    """Return means and differences of the model's covariates, the most unequal before first."""
    named = tables["cm_covariate"][["covariate_id", "covariate_name"]]
    table = tables["cm_covariate_balance"].merge(named, on="covariate_id")
    sizes = table["std_diff_before"].abs().fillna(-1.0)
    table = table.loc[sizes.sort_values(ascending=False, kind="stable").index]
    lines = []
    for of in table.to_dict("records"):
        line: dict[str, Any] = {"covariate": of["covariate_name"]}
        for when in ("before", "after"):
            line |= {f"{arm}_{when}": _share(of[f"{arm}_mean_{when}"]) for arm in ARMS}
            line[f"smd_{when}"] = _known(of[f"std_diff_{when}"])
        lines.append({**line, "moved": _known(of["target_std_diff"])})
    return lines


def follow_up_lines(tables: Tables) -> list[dict[str, object]]:
    """Return quantiles of the days of follow-up of each arm for which they are known."""
    table = tables["cm_follow_up_dist"].set_index("analysis_id")
    lines = []
    for group, analysis in GROUPS.items():
        for arm in ARMS:
            if analysis not in table.index:
                continue
            days = {
                name: _number(table.at[analysis, f"{arm}_{column}_days"])
                for name, column in QUANTILES.items()
            }
            if not any(map(math.isnan, days.values())):
                lines.append({"analysis": group, "arm": arm, **days})
    return lines


def _effect(line: Mapping[str, object]) -> dict[str, object]:
    """Return the effect of a result; missing if there is a reason for no estimate."""
    note = line["note"] if isinstance(line["note"], str) else ""
    stopped = isinstance(line["unconverged"], str) and "outcome model" in line["unconverged"]
    effect = {own: math.nan if note else _number(line[c]) for own, c in EFFECT.items()}
    return {**effect, "note": note, "converged": None if note else not stopped}


def _total(line: Mapping[str, object], name: str, part: str) -> int | Bound | None:
    """Return a count of both arms from its column or, without one, as the sum of the arms."""
    if name in line:
        return cell(line[name])
    parts = [cell(line[f"{arm}_{part}"]) for arm in ARMS]
    return total([n for n in parts if n is not None])


def _share(x: object) -> float | Bound | None:
    """Return a released share, of which −x means "less than x"."""
    value = _number(x)
    return Bound(-value) if value < 0 else _known(value)


def _known(x: object) -> float | None:
    """Convert a missing number to None."""
    value = _number(x)
    return None if math.isnan(value) else value


def _number(x: Any) -> float:
    """Convert a value to a float; missing ones to NaN."""
    return math.nan if x is None or pd.isna(x) else float(x)
