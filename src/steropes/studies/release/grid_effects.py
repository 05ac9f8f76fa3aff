"""Effects of a comparative grid, rounded or withheld if one of their counts is suppressed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from steropes.designs.values.arm_names import ARMS
from steropes.studies.diagnostics.result_blinding import tells_of_outcomes
from steropes.studies.disclosure.complementary_suppression import part_split, withheld_counts
from steropes.studies.disclosure.disclosive_digit_rounding import in_ratio, log_unit, significant
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.effect_suppression import (
    WITHHELD,
    Secrecy,
    effect_columns,
    number,
    released_effects,
    secrecy_of,
)
from steropes.studies.disclosure.released_table_rows import column, each_row
from steropes.studies.disclosure.sums_over_people import released_sums
from steropes.studies.release.grid_counts import KEY, GridCounts

__all__ = ["GridEffects", "released_grid_effects"]

COUNTS = tuple(f"{arm}_{what}" for what in ("subjects", "days", "outcomes") for arm in ARMS)


def released_periods(
    table: pd.DataFrame, secrecy: Mapping[tuple[int, int, int], Secrecy], rules: DisclosureRules
) -> pd.DataFrame:
    """Release effects in periods, with outcomes in multiples of the smallest count.

    The outcomes of a period less those of a curve on a nearby day may be those of few people.
    Therefore outcomes are rounded, and effects are rounded to steps that hide as many outcomes of
    the smaller arm. Both are withheld where an arm has few outcomes, or few informative ones.
    """
    if rules.open or table.empty:
        return table

    def released(line: dict[Any, Any]) -> dict[Any, Any]:
        """Release the outcomes and the effect of one period."""
        comparison, outcome, analysis = (int(line[k]) for k in KEY)
        s = secrecy[comparison, outcome, analysis]
        counts = [int(line[f"{arm}_{c}"]) for c in ("outcomes", "informative") for arm in ARMS]
        unit = log_unit(min(counts), rules.least)
        closed = s.closed or math.isinf(unit)
        for arm, n in zip(ARMS, counts, strict=False):
            told = rules.count(n) if rules.rounds else rules.least * round(n / rules.least)
            line[f"{arm}_outcomes"] = math.nan if closed else column([told])[0]
        step = max(unit, s.step)
        return line | effect_columns(line, Secrecy(closed, step), rules)

    return each_row(table, released)


@dataclass(frozen=True, eq=False)
class GridEffects:
    """Released tables of effects.

    Attributes
    ----------
    secrecy : dict
        Secrecy of each result, by (comparison, outcome, analysis).
    """

    results: pd.DataFrame
    interactions: pd.DataFrame
    subgroups: pd.DataFrame
    periods: pd.DataFrame
    profiles: pd.DataFrame
    absolute: pd.DataFrame
    notes: pd.DataFrame
    secrecy: dict[tuple[int, int, int], Secrecy]


def released_grid_effects(
    exact: dict[str, pd.DataFrame], counts: GridCounts, rules: DisclosureRules
) -> GridEffects:
    """Release the effects of results, their subgroups, profiles and absolute differences."""
    secrecy = {
        _key(line): _secrecy(line, counts.hidden.loc[i], rules)
        for i, line in counts.exact.iterrows()
    }

    def of(line: dict[Any, Any]) -> Secrecy:
        """Return the secrecy of a row's result."""
        return secrecy[_key(line)]

    results = released_effects(counts.results, of, rules)
    subgroups, open_ = _subgroups(exact["subgroup"], counts, secrecy, rules)
    interactions = exact["cm_interaction_result"]
    kept = [
        not secrecy[_key(line)].closed
        and open_.get((*_key(line), int(line["interaction_covariate_id"])), True)
        for _, line in interactions.iterrows()
    ]
    interactions = released_effects(interactions[np.array(kept, dtype=bool)], of, rules)
    told = counts.results.set_index(KEY)[list(COUNTS)]
    if len(interactions):
        at = pd.MultiIndex.from_frame(interactions[KEY])
        interactions = interactions.assign(**{c: told[c].reindex(at).to_numpy() for c in COUNTS})
    return GridEffects(
        results=results,
        interactions=interactions,
        subgroups=subgroups,
        periods=released_periods(exact["effect_by_period"], secrecy, rules),
        profiles=_profiles(exact["cm_likelihood_profile"], counts.exact, results, secrecy),
        absolute=_absolute(exact["absolute_effect"], counts.exact, secrecy, rules),
        notes=_notes(exact["note"], counts, results, secrecy, rules),
        secrecy=secrecy,
    )


def _key(line: Any) -> tuple[int, int, int]:
    """Return comparison, outcome and analysis of a row."""
    return int(line[KEY[0]]), int(line[KEY[1]]), int(line[KEY[2]])


def _secrecy(line: pd.Series, hidden: pd.Series, rules: DisclosureRules) -> Secrecy:
    """Decide with which precision the effect of a result may be released."""
    arms = [
        (int(line[f"{a}_outcomes"]), int(line[f"{a}_subjects"]), int(line[f"{a}_informative"]))
        for a in ARMS
    ]
    events = [e for arm, (e, _, _) in zip(ARMS, arms, strict=True) if hidden[f"{arm}_outcomes"]]
    people = [n for arm, (_, n, _) in zip(ARMS, arms, strict=True) if hidden[f"{arm}_subjects"]]
    return secrecy_of(arms, events, people, number(line["se_log_rr"]), rules)


def _subgroups(
    table: pd.DataFrame,
    counts: GridCounts,
    secrecy: dict[tuple[int, int, int], Secrecy],
    rules: DisclosureRules,
) -> tuple[pd.DataFrame, dict[tuple[int, ...], bool]]:
    """Release the effects within levels, and find the interactions that may be released.

    Both levels add up to a released count, so that both counts and the effects are withheld if one
    is small or near the count of another analysis.
    """
    if table.empty:
        return table, {}
    known: dict[tuple[Any, ...], list[int]] = {}
    lines: list[dict[Any, Any]] = []
    open_: dict[tuple[int, ...], bool] = {}
    hidden = counts.hidden.set_axis(pd.MultiIndex.from_frame(counts.exact[KEY]))
    whole = counts.results.set_axis(pd.MultiIndex.from_frame(counts.exact[KEY]))
    by = [*KEY, "interaction_covariate_id"]
    for key, of in table.groupby(by, sort=True):
        place = (int(key[0]), int(key[1]), int(key[2]), int(key[3]))
        s, levels = secrecy[place[:3]], of.to_dict("records")
        closed = s.closed
        for arm in ARMS:
            for what in ("subjects", "outcomes"):
                name = f"{arm}_{what}"
                exact = [int(line[name]) for line in levels]
                told = [
                    known.setdefault((place[0], place[1], place[3], k, name), [])
                    for k in range(len(exact))
                ]
                found = [rules.apart([n], other)[0] for n, other in zip(exact, told, strict=True)]
                small = any(rules.small(n) for n in exact)
                bounds = any(not isinstance(f, int) for f in found) or bool(
                    hidden.at[place[:3], name] and not rules.rounds
                )
                closed |= small or (bounds and not rules.rounds)
                shown = [float(whole.at[place[:3], name]), *map(rules.coarse, exact)]
                gone = withheld_counts(np.array(shown), [part_split(1, len(exact))], rules)[1:]
                for k, (line, f, n) in enumerate(zip(levels, found, exact, strict=True)):
                    if isinstance(f, int) and not bounds:
                        told[k].append(n)
                    withheld = gone[k] if rules.rounds else bounds
                    line[name] = math.nan if withheld else column([rules.count(n)])[0]
                    if bounds or small:
                        line[f"{arm}_days"] = math.nan
                    elif rules.rounds and what == "subjects":
                        days = released_sums([line[f"{arm}_days"]], [n], [line[name]], rules)
                        line[f"{arm}_days"] = days.iloc[0]
        open_[place] = not closed
        for line in levels:
            line |= effect_columns(line, Secrecy(closed, s.step), rules)
        lines += levels
    return pd.DataFrame(lines, columns=list(table.columns)), open_


def _profiles(
    table: pd.DataFrame,
    exact: pd.DataFrame,
    results: pd.DataFrame,
    secrecy: dict[tuple[int, int, int], Secrecy],
) -> pd.DataFrame:
    """Release likelihood profiles, except those whose slopes would count suppressed events.

    If only numbers of people are suppressed, a profile is moved to the rounded estimate and has
    three significant digits and no slopes: it then reveals no more than the estimate.
    """
    if table.empty:
        return table
    moved = {
        _key(line): float(line["log_rr"]) - number(exact.at[i, "log_rr"])
        for i, line in results.iterrows()
    }
    parts = []
    for key, of in table.groupby(KEY, sort=False):
        place = (int(key[0]), int(key[1]), int(key[2]))
        s = secrecy[place]
        if s.closed or s.events:
            continue
        if s.step:
            if not math.isfinite(moved[place]):
                continue
            of = of.assign(
                log_rr=(of["log_rr"] + moved[place]).round(6),
                log_likelihood=of["log_likelihood"].map(significant),
                gradient=np.nan,
            )
        parts.append(of)
    return pd.concat(parts, ignore_index=True) if parts else table.iloc[:0]


def _absolute(
    table: pd.DataFrame,
    results: pd.DataFrame,
    secrecy: dict[tuple[int, int, int], Secrecy],
    rules: DisclosureRules,
) -> pd.DataFrame:
    """Release risks and means, rounded like ratios if numbers of people are suppressed.

    A risk by a day discloses the outcomes by this day. If these are few in an arm, nothing is
    released; if few follow it, risks are rounded to steps that hide as many.
    """
    totals = results.set_index(KEY)[[f"{arm}_outcomes" for arm in ARMS]]

    def released(line: dict[Any, Any]) -> dict[Any, Any] | None:
        """Round one row, or omit it."""
        s = secrecy[_key(line)]
        by_day = [int(line.pop(f"{arm}_events")) for arm in ARMS]
        later = [int(n) - d for n, d in zip(totals.loc[_key(line)], by_day, strict=True)]
        if s.closed or (s.events and not rules.rounds) or any(map(rules.small, by_day)):
            return None
        if not rules.open and any(map(rules.small, later)):
            line |= _coarse_risks(line, log_unit(min(by_day), rules.least))
        if s.step:
            own = [c for c in line if c not in (*KEY, "database_id", "horizon_day")]
            digits = 3 if rules.rounds else 2
            for c in own:  # A risk is about inversely proportional to the number of people.
                step = s.step if "risk" in c else 0.0
                line[c] = in_ratio(number(line[c]), step, digits)
        return line

    events = [f"{arm}_events" for arm in ARMS]
    return each_row(table, released).drop(columns=events, errors="ignore")


def _coarse_risks(line: dict[Any, Any], step: float) -> dict[str, float]:
    """Round risks to a step of their logarithms, and move their difference with them."""
    found = {f"{arm}_risk": in_ratio(number(line[f"{arm}_risk"]), step, 2) for arm in ARMS}
    difference = found["target_risk"] - found["comparator_risk"]
    moved = difference - number(line["risk_difference"])
    ends = {name: number(line[name]) for name in ("risk_difference_lb", "risk_difference_ub")}
    found |= {name: significant(x + moved, 2) for name, x in ends.items()}
    return {**found, "risk_difference": significant(difference, 2)}


def _notes(
    table: pd.DataFrame,
    counts: GridCounts,
    results: pd.DataFrame,
    secrecy: dict[tuple[int, int, int], Secrecy],
    rules: DisclosureRules,
) -> pd.DataFrame:
    """Release the numbers that accompany each result."""
    fewest = {
        _key(line): min(int(line[f"{arm}_subjects"]) for arm in ARMS)
        for _, line in counts.exact.iterrows()
    }
    effects = {_key(line): line for line in results.to_dict("records")}

    def released(line: dict[Any, Any]) -> dict[Any, Any]:
        """Round or remove the numbers of one note."""
        key = _key(line)
        s, effect = secrecy[key], effects[key]
        for name in ("tied", "target_lost", "comparator_lost"):
            line[name] = rules.stepped(number(line[name]), fewest[key])
        if s.closed:
            # The note of an estimate that is missing or infinite would reveal the outcomes.
            if not line["note"] or (fewest[key] and tells_of_outcomes(line["note"])):
                line["note"] = WITHHELD
            names = ("proportional_p", "e_value", "e_value_limit", "limit_ratio")
            line |= {**dict.fromkeys(names, math.nan), "e_value_form": None}
        elif s.step:
            for name in ("proportional_p", "e_value", "e_value_limit"):
                line[name] = significant(number(line[name]), 2)
            low, high = number(effect["ci_95_lb"]), number(effect["ci_95_ub"])
            line["limit_ratio"] = high / low if low > 0 else math.nan
            if s.events:  # The form of an E-value reveals whether the outcome is common.
                line |= {"e_value": math.nan, "e_value_limit": math.nan, "e_value_form": None}
        return line

    return each_row(table, released)
