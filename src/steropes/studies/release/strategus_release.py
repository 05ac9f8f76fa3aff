"""Disclosure control of the tables of Strategus' modules that other studies do not have.

Cohorts, strata and targets overlap, so that their counts can be subtracted from each other in many
ways, also between modules. All counts are therefore rounded as `DisclosureRules.coarse` does, and
a number of entries or events of few people is suppressed like the number of these people.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.values.dates_and_ages import DAYS_PER_YEAR
from steropes.studies.disclosure.complementary_suppression import (
    Split,
    beside,
    exhaustive_splits,
    limit_of_part,
    nested_splits,
    withheld_counts,
)
from steropes.studies.disclosure.disclosive_digit_rounding import significant
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.inclusion_statistics_suppression import withheld_statistics
from steropes.studies.disclosure.small_cell_suppression import small_cells
from steropes.studies.disclosure.sums_over_people import released_means, released_sums
from steropes.studies.release.prediction_counts import ANALYSIS_IDS

__all__ = [
    "beside_everybody",
    "coarse_counts",
    "released_baseline",
    "released_challenges",
    "released_cohort_counts",
    "released_count",
    "released_counts",
    "released_distributions",
    "released_rates",
    "released_statistics",
    "released_times",
]

# Names of the tables of inclusion statistics in CohortGenerator, by Circe's.
STATISTICS = {
    "cohort_inclusion_result": "cg_cohort_inc_result",
    "cohort_inclusion_stats": "cg_cohort_inc_stats",
    "cohort_summary_stats": "cg_cohort_summary_stats",
    "cohort_censor_stats": "cg_cohort_censor_stats",
}
# Numbers of outcomes, with the number of people who have them, before and after exclusions.
EVENTS = {"outcomes_pe": "person_outcomes_pe", "outcomes": "person_outcomes"}
PEOPLE = ("persons_at_risk_pe", "persons_at_risk", *EVENTS.values())
RATES_OF = ["target_cohort_definition_id", "tar_id", "outcome_id"]
STRATA = ["age_group_id", "gender_id", "start_year"]
# Numbers of people with dechallenges and rechallenges, with the number that each is a share of.
CHALLENGES = {
    "dechallenge_attempt": "num_cases",
    "dechallenge_success": "dechallenge_attempt",
    "dechallenge_fail": "dechallenge_attempt",
    "rechallenge_attempt": "dechallenge_attempt",
    "rechallenge_success": "rechallenge_attempt",
    "rechallenge_fail": "rechallenge_attempt",
}
PERCENTILES = {"p_10": 0.1, "p_25": 0.25, "median": 0.5, "p_75": 0.75, "p_90": 0.9}
Tables = dict[str, pd.DataFrame]


def released_cohort_counts(entries: int, people: int, rules: DisclosureRules) -> dict[str, float]:
    """Return the numbers of entries and people of a cohort for release.

    Cohorts share people with their subsets and with other cohorts.
    """
    return {
        "cohort_entries": float(released_count(entries, people, rules)),
        "cohort_subjects": float(rules.coarse(people)),
    }


def released_count(n: int, people: int, rules: DisclosureRules) -> int:
    """Release a number of entries or events, which is suppressed if they are of few people."""
    return -rules.least if rules.small(people) else rules.coarse(n)


def coarse_counts(counts: pd.Series, rules: DisclosureRules) -> pd.Series:
    """Round a column of counts as `DisclosureRules.coarse` does, each distinct count once."""
    distinct, place = np.unique(counts.to_numpy(), return_inverse=True)
    made = np.array([rules.coarse(n) for n in distinct], np.int64)
    return pd.Series(made[place], counts.index, name=counts.name)


def released_counts(n: pd.Series, people: pd.Series, rules: DisclosureRules) -> pd.Series:
    """Release numbers of entries or events as `released_count` does."""
    return coarse_counts(n, rules).mask(small_cells(people, rules.least), -rules.least)


def released_statistics(
    counted: Mapping[str, pd.DataFrame], rules: DisclosureRules, database_id: str
) -> Tables:
    """Return the inclusion statistics of cohorts for release, by CohortGenerator's names.

    Parameters
    ----------
    counted : mapping of str to DataFrame
        Exact statistics, by Circe's names of the tables, with the numbers of people that each count
        is about in columns with the suffix ``_people``.
    """
    gone = withheld_statistics(counted, rules, lambda n, people: released_count(n, people, rules))
    found = {}
    for name, table in counted.items():
        people = [c for c in table.columns if c.endswith("_people")]
        made = table.drop(columns=people).assign(database_id=database_id)
        for of in people:
            column = of.removesuffix("_people")
            pairs = zip(table[column], table[of], strict=True)
            made[column] = [released_count(n, k, rules) for n, k in pairs]
            if (name, column) in gone:
                limits = gone[name, column]
                made[column] = np.where(np.isnan(limits), made[column], limits).astype(np.int64)
        found[STATISTICS[name]] = made
    return found


def released_rates(rates: pd.DataFrame, rules: DisclosureRules, database_id: str) -> pd.DataFrame:
    """Return incidence rates for release; proportions and rates follow from rounded counts.

    Days are those of the released number of people, and are withheld next to a suppressed stratum.
    Where few people have the outcome, days before exclusions stand for those after them, because
    the difference counts these people. Strata of few people are left out, and so are counts of
    strata from which a suppressed one would follow.

    Parameters
    ----------
    rates : DataFrame
        Exact rates.
    """
    made = rates.assign(database_id=database_id, source_name=database_id)
    if rules.open:
        return _with_ratios(made)
    few = small_cells(made[PEOPLE[0]], rules.least).to_numpy(bool)
    splits, inside = nested_splits(made, RATES_OF, STRATA), np.zeros(len(made), bool)
    for parts, totals in splits:
        inside[parts] |= few[totals]
    exact, made = made, made.copy()
    for name in PEOPLE:
        made[name] = coarse_counts(exact[name], rules)
    for name, people in EVENTS.items():
        made[name] = released_counts(exact[name], exact[people], rules)
    without = beside(made[[*PEOPLE[:2]]].lt(0).any(axis=1).to_numpy(), splits)
    for names in (PEOPLE[:2], (*EVENTS.values(), *EVENTS)):
        gone = np.zeros(len(made), bool)
        for name in names:
            gone |= withheld_counts(
                made[name].to_numpy(),
                splits,
                rules,
                entries=name in EVENTS,
                fewest=int(name == PEOPLE[0]),
                absent=inside,
            )
        for name in names if gone.any() else ():
            made[name] = made[name].mask(gone)
    rare = exact[[*EVENTS.values()]].apply(small_cells, least=rules.least).any(axis=1)
    for suffix in ("_pe", ""):
        people, days = f"persons_at_risk{suffix}", f"person_days{suffix}"
        sums = released_sums(exact[days], exact[people], made[people], rules)
        if not suffix:
            longer = released_sums(exact["person_days_pe"], exact[PEOPLE[0]], made[people], rules)
            sums = sums.mask(rare, longer)
        made[days] = sums.mask(without)
    return _with_ratios(made[~inside])


def _with_ratios(rates: pd.DataFrame) -> pd.DataFrame:
    """Add proportions per 100 people and rates per 100 years, where no count is withheld."""
    people, days = rates["persons_at_risk"], rates["person_days"]
    cases, events = rates["person_outcomes"], rates["outcomes"]
    proportion = (100.0 * cases / people).where((people > 0) & (cases >= 0))
    rate = (100.0 * events / (days / DAYS_PER_YEAR)).where((days > 0) & (events >= 0))
    return rates.assign(incidence_proportion_p100p=proportion, incidence_rate_p100py=rate)


def released_times(counts: pd.DataFrame, rules: DisclosureRules, database_id: str) -> pd.DataFrame:
    """Return the numbers of events by time for release, without the ``persons`` who have them.

    A row with a suppressed number would reveal the day of an event, and the number of such rows
    would be a lower bound of the events in a longer period. These rows are left out, like those of
    days without events, of which the tables have none.

    Parameters
    ----------
    counts : DataFrame
        Exact counts.
    """
    pairs = zip(counts["num_events"], counts["persons"], strict=True)
    events = [released_count(n, of, rules) for n, of in pairs]
    made = counts.drop(columns="persons").assign(num_events=events, database_id=database_id)
    return made[made["num_events"] >= 0].reset_index(drop=True)


def released_challenges(
    counts: pd.DataFrame, rules: DisclosureRules, database_id: str
) -> pd.DataFrame:
    """Return the numbers of dechallenges and rechallenges for release, with their shares.

    Shares follow from released numbers, and are missing where one of these is withheld.

    Parameters
    ----------
    counts : DataFrame
        Exact counts.
    """
    made = counts.drop(columns="case_persons").assign(database_id=database_id)
    for name, people in (
        ("num_exposure_eras", "num_persons_exposed"), ("num_cases", "case_persons")
    ):  # fmt: skip
        pairs = zip(counts[name], counts[people], strict=True)
        made[name] = [released_count(n, of, rules) for n, of in pairs]
    for name in ("num_persons_exposed", *CHALLENGES):
        made[name] = counts[name].map(rules.coarse)
    # Dechallenges and rechallenges succeed or fail.
    places = [np.arange(len(made)) * len(CHALLENGES) + k for k in range(len(CHALLENGES))]
    splits = [
        (np.concatenate([places[k + 1], places[k + 2]]), np.tile(places[k], 2)) for k in (0, 3)
    ]
    shown = made[[*CHALLENGES]].to_numpy()
    gone = withheld_counts(shown.ravel(), splits, rules).reshape(shown.shape)
    for k, name in enumerate(CHALLENGES):
        limits = limit_of_part(shown[:, k // 3 * 3], rules).astype(np.int64)
        made[name] = made[name].mask(gone[:, k], limits)
    for name, of in CHALLENGES.items():
        known = (made[of] > 0) & (made[name] >= 0)
        made[f"pct_{name}"] = (made[name] / made[of]).where(known)
    return made


def released_baseline(tables: Tables, rules: DisclosureRules, database_id: str) -> Tables:
    """Return the covariates of targets for release.

    Means of 0/1 covariates follow from rounded counts. Smallest and largest values belong to single
    people and are withheld, and so are percentiles with few people beyond them, and all numbers of
    many entries of few people.

    Parameters
    ----------
    tables : dict of str to DataFrame
        The exact tables.
    """
    found = {name: table.assign(database_id=database_id) for name, table in tables.items()}
    if rules.open:
        return {
            name: table.drop(columns=["people", "persons"], errors="ignore")
            for name, table in found.items()
        }
    counts = found["c_cohort_counts"]
    if len(counts):
        few = counts["person_count"].map(rules.small)  # Entries are no fewer than people.
        for name in ("row_count", "person_count"):
            counts[name] = counts[name].map(rules.coarse).mask(few, -rules.least)
        counts["mean_exposure_time"] = released_means(
            counts["mean_exposure_time"], counts["row_count"], rules
        )
        counts[["min_exposure_time", "max_exposure_time"]] = math.nan
    ones = found["c_covariates"]
    if len(ones):
        few, whole = small_cells(ones.pop("persons"), rules.least), ones.pop("people")
        people, exact = coarse_counts(whole, rules), ones["sum_value"]
        sums = coarse_counts(exact, rules).mask(few, -rules.least)
        keys = ["setting_id", "cohort_type", "target_cohort_id", "outcome_cohort_id"]
        of = ones.groupby(keys, dropna=False, sort=False).ngroup()
        kinds = ones["covariate_id"] % ANALYSIS_IDS
        gone = beside_everybody(of, [kinds], exact, sums, whole, rules)
        sums = sums.mask(gone, limit_of_part(people, rules).astype(np.int64))
        ones["sum_value"] = sums
        ones["average_value"] = (sums / people).where((people > 0) & (sums >= 0))
    values = found["c_covariates_continuous"]
    if len(values):
        found["c_covariates_continuous"] = released_distributions(values, rules)
    return found


def released_distributions(values: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Return distributions of covariates for release, without the number of ``persons``.

    Smallest and largest values belong to single people and are withheld, and so are percentiles
    with few people beyond them. A standard deviation of two values is a function of the number of
    people with each, so that it is rounded like a mean.
    """
    values = values.copy()
    few = small_cells(values.pop("persons"), rules.least)
    if rules.open:
        return values
    shown = coarse_counts(values["count_value"], rules).mask(few, -rules.least)
    small = shown < 0
    for name, share in PERCENTILES.items():
        beyond = np.minimum(share, 1 - share) * shown
        kept = values[f"{name}_value"].map(significant)
        values[f"{name}_value"] = kept.mask(small | (beyond < rules.least))
    values["count_value"] = shown
    for name in ("average_value", "standard_deviation"):
        values[name] = released_means(values[name], shown, rules)
    values[["min_value", "max_value"]] = math.nan
    return values


def beside_everybody(
    of: pd.Series,
    kinds: Sequence[pd.Series],
    exact: pd.Series,
    shown: pd.Series,
    people: pd.Series,
    rules: DisclosureRules,
    further: Sequence[Split] = (),
) -> NDArray:
    """Mark the counts of groups of which everybody has exactly one, and that narrow another.

    These are the groups of one kind, such as ages, if they add up to everybody. Groups can be
    divided into kinds in several ways.

    Parameters
    ----------
    of : Series of int, shape (n,)
        The number of the cohort of each count, from 0.
    kinds : sequence of Series of int, shape (n,)
        The kind of each group; negative for one that belongs to none.
    exact, shown : Series, shape (n,)
        Exact counts, and as each of them is released.
    people : Series, shape (n,)
        The exact number of everybody.
    further : sequence of (ndarray, ndarray)
        Positions of parts, and of the total of each, among the counts.
    """
    number, whole = of.to_numpy(), people.to_numpy(float)
    _, first = np.unique(number, return_index=True)
    counts = np.concatenate([shown.to_numpy(), [rules.coarse(n) for n in whole[first]]])
    splits = [
        split
        for kind in kinds
        for split in exhaustive_splits(
            kind.to_numpy(), exact.to_numpy(float), len(number) + number, whole
        )
    ]
    return withheld_counts(counts, [*splits, *further], rules, fewest=1)[: len(number)]
