"""Disclosure control of pathways of events.

Pathways, events, lines and steps of attrition share people in many ways. All counts are therefore
rounded as `DisclosureRules.coarse` does. Pathways and events of few people are left out, because
their names alone would describe these people.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.disclosure.complementary_suppression import (
    MANY_STRATA,
    Split,
    limit_of_part,
    withheld_counts,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.sums_over_people import released_means
from steropes.studies.release.strategus_release import (
    beside_everybody,
    released_count,
    released_distributions,
)

__all__ = ["released_pathways"]

TARGET = "target_cohort_id"
OVERALL = "overall"  # All places of an event in pathways.
# The columns of durations by the names that distributions of covariates have.
DISTRIBUTION = {
    "duration_min": "min_value",
    "duration_max": "max_value",
    "duration_average": "average_value",
    "duration_sd": "standard_deviation",
    "duration_q_1": "p_25_value",
    "duration_median": "median_value",
    "duration_q_2": "p_75_value",
    "event_count": "count_value",
    "people": "persons",
}
Tables = dict[str, pd.DataFrame]


def released_pathways(exact: Mapping[str, pd.DataFrame], rules: DisclosureRules) -> Tables:
    """Return the counts of pathways for release.

    Events in a place are those of all pathways with them, and ages, sexes and years are of the same
    people, so that these tables are searched together for counts that narrow a suppressed one;
    these are left out too.

    Parameters
    ----------
    exact : mapping of str to DataFrame
        Exact tables of all targets: "paths", "durations", "people" and "attrition".

    Returns
    -------
    dict of str to DataFrame
        The same tables, without exact numbers of people.
    """
    names = ("paths", "durations", "people")
    made = {name: exact[name].reset_index(drop=True) for name in names}
    withheld = np.zeros(len(made["people"]), bool)
    if not rules.open:
        counts = [("paths", "freq"), ("durations", "event_count")]
        shown = {name: _shown(made[name], column, rules) for name, column in counts}
        gone = _left_out(made, shown, rules)
        withheld = gone["people"]
        for name, column in counts:
            of = shown[name].mask(gone[name], -rules.least).astype(made[name][column].dtype)
            made[name] = made[name].assign(**{column: of})
    return {
        "paths": _paths(made["paths"]),
        "durations": _durations(made["durations"], exact["durations"], rules),
        "people": _people(made["people"], withheld, rules),
        "attrition": _attrition(exact["attrition"], rules),
    }


def _shown(table: pd.DataFrame, column: str, rules: DisclosureRules) -> pd.Series:
    """Round the counts of a table; those of few people are suppressed."""
    pairs = zip(table[column], table["people"], strict=True)
    return pd.Series([released_count(n, of, rules) for n, of in pairs], table.index, dtype=float)


def _left_out(
    exact: Tables, shown: dict[str, pd.Series], rules: DisclosureRules
) -> dict[str, NDArray]:
    """Mark the pathways and events that narrow a suppressed number."""
    paths, events, people = exact["paths"], exact["durations"], exact["people"]
    n, m = len(paths), len(events)
    targets, target = np.unique(paths[TARGET], return_inverse=True)
    pathways = np.bincount(target, paths["freq"]).astype(np.int64)
    whole = pd.Series(n + m + np.arange(len(pathways)), targets)
    strata = n + m + len(pathways)
    counts = np.concatenate(
        [shown["paths"], shown["durations"], [float(rules.coarse(of)) for of in pathways],
         people["n"].map(rules.coarse).to_numpy(float)]
    )  # fmt: skip
    splits = [(np.arange(n), whole.to_numpy()[target]), *_sums_of_events(paths, events)]
    # Everybody has a first event, which is a single one or a combination.
    first = events.index[(events["line"] == "1") & events[TARGET].isin(targets)]
    for own in (first[events["kind"][first].notna()], first[events["kind"][first].isna()]):
        splits.append((n + own.to_numpy(), whole[events[TARGET][own]].to_numpy()))
    known = pd.Series(pathways, targets)
    for (of, _), own in people.groupby([TARGET, "kind"], sort=False):
        if of in known.index and own["n"].sum() == known[of]:
            splits.append((strata + own.index.to_numpy(), np.full(len(own), whole[of])))
    many = np.bincount(target) >= MANY_STRATA
    gone = withheld_counts(counts, splits, rules, several=bool(many.all()))
    return {"paths": gone[:n], "durations": gone[n : n + m], "people": gone[strata:]}


def _sums_of_events(paths: pd.DataFrame, events: pd.DataFrame) -> list[Split]:
    """Find the pathways of each event in each place, the events of each kind, and all places.

    Positions are those in both tables together.
    """
    n, keys = len(paths), [TARGET, "event_name", "line"]
    place = pd.Series(n + np.arange(len(events)), pd.MultiIndex.from_frame(events[keys]))
    found = []

    def add(parts: pd.Series, targets: Iterable[int], names: Iterable[str], lines: object) -> None:
        """Add the sums of parts that belong to an event or a kind, in a place."""
        of = pd.DataFrame({TARGET: targets, "event_name": names, "line": lines})
        totals = place.reindex(pd.MultiIndex.from_frame(of))
        found.append((parts.to_numpy(np.int64), totals.to_numpy(np.int64)))

    length = paths["events"].map(len)
    for k in range(length.max() if n else 0):
        own = paths[length > k]
        add(pd.Series(own.index), own[TARGET].array, own["events"].str[k].array, str(k + 1))
    single = events[events["kind"].notna()]
    add(pd.Series(n + single.index), single[TARGET].array, single["kind"].array,
        single["line"].array)  # fmt: skip
    lines = events[events["line"] != OVERALL]
    add(pd.Series(n + lines.index), lines[TARGET].array, lines["event_name"].array, OVERALL)
    return found


def _paths(paths: pd.DataFrame) -> pd.DataFrame:
    """Release the numbers of pathways; suppressed ones are left out."""
    return paths[paths["freq"] > 0].drop(columns=["people", "events"]).reset_index(drop=True)


def _durations(made: pd.DataFrame, exact: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release the days of events; suppressed ones are left out.

    The mean of a kind is one over its events, and with fixed lengths it tells how many have each.
    It is rounded like a mean over the rarest of them, and the other days of a kind are withheld.
    """
    if rules.open or not len(made):
        return made.drop(columns=["people", "kind"])
    named = exact.reset_index(drop=True).rename(columns=DISTRIBUTION)
    named = named.assign(p_10_value=math.nan, p_90_value=math.nan)
    shown = released_distributions(named.drop(columns="kind"), rules)
    back = {name: column for column, name in DISTRIBUTION.items()}
    shown = shown.rename(columns=back).drop(columns=["p_10_value", "p_90_value"])
    shown["event_count"] = made["event_count"]
    of_kind = made["kind"].isna()
    days = [column for column in DISTRIBUTION if column.startswith("duration_")]
    shown.loc[of_kind, days] = math.nan
    shown.loc[of_kind, "duration_average"] = released_means(
        exact["duration_average"], _rarest(made), rules
    )[of_kind]
    return shown[shown["event_count"] > 0].reset_index(drop=True)


def _rarest(made: pd.DataFrame) -> pd.Series:
    """Return the smallest released number of an event of each kind, in a place or in any place."""
    single = made[made["kind"].notna()]
    keys = [TARGET, "kind", "line"]
    least = single.groupby(keys)["event_count"].min()
    everywhere = single.groupby(keys[:2])["event_count"].min()
    places = pd.MultiIndex.from_frame(made[[TARGET, "event_name", "line"]])
    found = pd.Series(least.reindex(places).to_numpy(), made.index)
    overall = pd.Series(everywhere.reindex(places.droplevel(2)).to_numpy(), made.index)
    return found.mask(made["line"] == OVERALL, overall)


def _people(people: pd.DataFrame, withheld: NDArray, rules: DisclosureRules) -> pd.DataFrame:
    """Release the numbers of people as texts, such as "<5"; some narrow those of others."""
    if rules.open or not len(people):
        return people.assign(n=people["n"].astype(str))
    shown = people["n"].map(rules.coarse)
    kinds = pd.Series(people.groupby("kind", sort=False).ngroup(), people.index)
    whole = people.groupby([TARGET, "kind"])["n"].transform("sum")
    of = pd.Series(people.groupby(TARGET, sort=False).ngroup(), people.index)
    gone = beside_everybody(of, [kinds], people["n"], shown, whole, rules)
    limits = limit_of_part(whole.map(rules.coarse), rules).astype(np.int64)
    shown = shown.mask(gone | withheld, limits)
    return people.assign(n=[f"<{-n}" if n < 0 else str(n) for n in shown])


def _attrition(attrition: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release the numbers of records and people."""
    pairs = zip(attrition["number_records"], attrition["number_subjects"], strict=True)
    return attrition.assign(
        number_records=[released_count(n, of, rules) for n, of in pairs],
        number_subjects=attrition["number_subjects"].map(rules.coarse),
    )
