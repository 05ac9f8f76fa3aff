"""Disclosure control of the diagnostics of cohorts, in the tables of R's CohortDiagnostics.

Cohorts, concepts, windows and strata overlap, so that their counts can be subtracted from each
other. All counts are therefore rounded as `DisclosureRules.coarse` does, and those that narrow a
suppressed one are withheld where groups add up to everybody.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from steropes.designs.values.dates_and_ages import DAYS_PER_YEAR
from steropes.studies.cohort_diagnostics.diagnostic_tables import CohortDiagnostics
from steropes.studies.cohort_diagnostics.yearly_incidence import STRATA
from steropes.studies.disclosure.complementary_suppression import (
    Split,
    limit_of_part,
    withheld_counts,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.release.calendar_series_release import released_series
from steropes.studies.release.strategus_release import (
    beside_everybody,
    coarse_counts,
    released_cohort_counts,
    released_counts,
    released_distributions,
    released_rates,
    released_statistics,
)

__all__ = ["released_diagnostics"]

# R's names of the inclusion statistics, by those of CohortGenerator.
STATISTICS = {
    "cg_cohort_inc_result": "cd_cohort_inc_result",
    "cg_cohort_inc_stats": "cd_cohort_inc_stats",
    "cg_cohort_summary_stats": "cd_cohort_summary_stats",
}
PER = 1000  # Rates are per this number of person-years.
AT_A_TIME = 100_000  # About how many rows of cohorts are released at a time.
OVERLAP = ("before_subjects", "same_day_subjects", "after_subjects")
ALONE = ("only_subjects", "other_only_subjects")
Tables = dict[str, pd.DataFrame]
Release = Callable[[pd.DataFrame, DisclosureRules], pd.DataFrame]


def released_diagnostics(
    exact: CohortDiagnostics,
    counted: Mapping[str, pd.DataFrame],
    rules: DisclosureRules,
    database_id: str,
) -> Tables:
    """Return the counts of all diagnostics for release.

    Parameters
    ----------
    exact : CohortDiagnostics
        The exact diagnostics.
    counted : mapping of str to DataFrame
        Exact inclusion statistics of the same cohorts by Circe's names; empty if not asked for.

    Returns
    -------
    dict of str to DataFrame
        The tables by R's names, and ``cohort_overlap``.
    """
    where = {"database_id": database_id}
    people = exact.counts.set_index("cohort_definition_id")
    found: Tables = {
        "cd_cohort_count": pd.DataFrame(
            [
                {"cohort_id": i, **released_cohort_counts(int(n), int(k), rules), **where}
                for i, n, k in exact.counts.itertuples(index=False)
            ]
        )
    }
    for name, table in released_statistics(counted, rules, database_id).items():
        if name in STATISTICS:
            found[STATISTICS[name]] = table.rename(columns={"cohort_definition_id": "cohort_id"})
    for name, release in (
        ("index_event_breakdown", _index_events),
        ("visit_context", _visits),
    ):
        if name in exact.tables:
            found[f"cd_{name}"] = release(exact.tables[name], people, rules).assign(**where)
    for name in ("included_source_concept", "orphan_concept"):
        if name in exact.tables:
            found[f"cd_{name}"] = _concepts(exact.tables[name], rules).assign(**where)
    by_cohort: dict[str, Release] = {
        "cd_incidence_rate": _rates,
        "cd_time_series": released_series,
        "cohort_overlap": _overlap,
    }
    for name, own in by_cohort.items():
        if (table := exact.tables.get(name.removeprefix("cd_"))) is not None:
            found[name] = _by_cohorts(table, own, rules).assign(**where)
    if exact.windows is not None:
        own = partial(_ones, windows=exact.windows.windows)
        ones = _by_cohorts(exact.windows.ones, own, rules)
        values = _values(exact.windows.values, rules)
        # R repeats means of other covariates among those of 0/1 covariates, with the sum -1.
        means = values[["cohort_id", "time_id", "covariate_id", "mean", "sd"]].assign(sum_value=-1)
        whole = pd.concat([t for t in (ones, means) if len(t)] or [ones], ignore_index=True)
        found["cd_temporal_covariate_value"] = whole.assign(**where)
        found["cd_temporal_covariate_value_dist"] = values.assign(**where)
    return found


def _by_cohorts(table: pd.DataFrame, release: Release, rules: DisclosureRules) -> pd.DataFrame:
    """Release a table some cohorts at a time, so that thousands of them need little memory."""
    table = table.sort_values("cohort_id", kind="stable", ignore_index=True)
    starts = np.flatnonzero(table["cohort_id"].diff().ne(0))
    cuts = [0, *starts[np.diff(starts // AT_A_TIME, prepend=0) > 0], len(table)]
    parts = [table.iloc[a:b].reset_index(drop=True) for a, b in itertools.pairwise(cuts)]
    made = [release(part, rules) for part in parts]
    return pd.concat([of for of in made if len(of)] or made[:1], ignore_index=True)


def _index_events(
    table: pd.DataFrame, people: pd.DataFrame, rules: DisclosureRules
) -> pd.DataFrame:
    """Release the concepts of index events.

    If all have a record of exactly one concept, counts that narrow a suppressed one are withheld.
    """
    made = table.copy()
    counts = released_counts(table["concept_count"], table["subject_count"], rules)
    made["concept_count"] = counts.astype(float)
    made["subject_count"] = coarse_counts(table["subject_count"], rules).astype(float)
    if rules.open or not len(table):
        return made
    of = table.groupby("cohort_id", sort=False).ngroup()
    kinds = table.groupby(["domain_table", "domain_field"], sort=False).ngroup()
    for name, whole in (("subject_count", "people"), ("concept_count", "entries")):
        everybody = table["cohort_id"].map(people[whole])
        gone = beside_everybody(of, [kinds], table[name], made[name], everybody, rules)
        limits = limit_of_part(coarse_counts(everybody, rules), rules)
        made[name] = made[name].mask(gone, pd.Series(limits, made.index))
    return made


def _visits(table: pd.DataFrame, people: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release the people with visits around the index date."""
    shown = coarse_counts(table["subjects"], rules).astype(float)
    if rules.open or not len(table):
        return table.assign(subjects=shown)
    of = table.groupby("cohort_id", sort=False).ngroup()
    # Each may have exactly one visit, one of each context, or one that includes the index date.
    contexts = table.groupby("visit_context", sort=False).ngroup()
    of_index = table["visit_context"].isin(["During visit", "On visit start"]).astype(int) - 1
    kinds = [contexts, of_index, contexts * 0]
    everybody = table["cohort_id"].map(people["people"])
    gone = beside_everybody(of, kinds, table["subjects"], shown, everybody, rules)
    limits = limit_of_part(coarse_counts(everybody, rules), rules)
    return table.assign(subjects=shown.mask(gone, pd.Series(limits, table.index)))


def _concepts(table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release records and people of the whole database by concept."""
    counts = released_counts(table["concept_count"], table["concept_subjects"], rules)
    return table.assign(
        concept_count=counts.astype(float),
        concept_subjects=coarse_counts(table["concept_subjects"], rules).astype(float),
    )


def _rates(table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release incidence by year, age and sex as other incidence rates are released."""
    asked = pd.DataFrame(
        {
            "target_cohort_definition_id": table["cohort_id"],
            "tar_id": 0,
            "outcome_id": table["cohort_id"],
            "age_group_id": table["age_group"],
            "gender_id": table["gender_id"],
            "start_year": table["calendar_year"],
            "persons_at_risk_pe": table["people_before"],
            "persons_at_risk": table["people"],
            "person_days_pe": table["days_before"],
            "person_days": table["days"],
        }
    ).assign(**dict.fromkeys(
        ("person_outcomes_pe", "person_outcomes", "outcomes_pe", "outcomes"), table["cases"]
    ))  # fmt: skip
    made = released_rates(asked.reset_index(drop=True), rules, "")
    years = (made["person_days"] / DAYS_PER_YEAR).astype(float)
    cases = made["person_outcomes"].astype(float)
    return pd.DataFrame(
        {
            "cohort_id": made["outcome_id"],
            **{s: made[c] for s, c in
               zip(STRATA, ("start_year", "age_group_id", "gender_id"), strict=True)},
            "cohort_count": cases,
            "person_years": years,
            # The rate of a suppressed count is the limit that it is below, as in R.
            "incidence_rate": (PER * cases / years).where(years > 0, 0.0).mask(
                cases.isna() | years.isna()
            ),
        }
    )  # fmt: skip


def _overlap(table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release the people of two cohorts, who enter one of them first or both on one day.

    People in one cohort alone are not released: they follow from the sizes of the cohorts.
    """
    names = ("both_subjects", *OVERLAP)
    made = table.drop(columns=[*ALONE]).copy()
    for name in names:
        made[name] = coarse_counts(table[name], rules).astype(float)
    if rules.open or not len(table):
        return made
    sizes = [table["both_subjects"] + table[name] for name in ALONE]
    shown = np.concatenate(
        [made[[*names]].to_numpy().ravel()]
        + [coarse_counts(size, rules).to_numpy(float) for size in sizes]
        + [np.full(len(table), np.nan)] * 2
    )
    n, row = len(table), np.arange(len(table)) * len(names)
    base = n * len(names)
    first, second, only, other = (base + k * n + np.arange(n) for k in range(4))
    splits = [
        (np.concatenate([row + k for k in (1, 2, 3)]), np.tile(row, 3)),
        (np.concatenate([row, only]), np.tile(first, 2)),
        (np.concatenate([row, other]), np.tile(second, 2)),
    ]
    absent = np.arange(len(shown)) >= base + 2 * n
    gone = withheld_counts(shown, splits, rules, absent=absent)[:base].reshape(n, len(names))
    smaller = pd.Series(np.minimum(shown[first], shown[second]), table.index)
    for k, name in enumerate(names):
        # Each part is smaller than everybody in the smaller cohort.
        whole = smaller if name == "both_subjects" else made["both_subjects"].clip(lower=0)
        limits = pd.Series(limit_of_part(whole.clip(lower=0), rules), table.index)
        made[name] = made[name].mask(gone[:, k], limits)
    return made


def _ones(
    table: pd.DataFrame, rules: DisclosureRules, windows: Sequence[tuple[int, int]]
) -> pd.DataFrame:
    """Release 0/1 covariates of windows: entries, their share and its standard deviation.

    If nobody has a record in two of the windows that a longer one consists of, such as a first
    diagnosis, counts that narrow a suppressed one are withheld.
    """
    made = table[["cohort_id", "time_id", "covariate_id"]].copy()
    entries, exact = table["entries"], table["sum_value"]
    shown = released_counts(exact, table["persons"], rules)
    whole = coarse_counts(entries, rules)
    if not rules.open and len(table):
        of = table.groupby(["cohort_id", "time_id"], sort=False).ngroup()
        kinds = table["covariate_id"] % 1000
        sums = _sums_of_windows(table, windows)
        gone = beside_everybody(of, [kinds], exact, shown, entries, rules, sums)
        shown = shown.mask(gone, pd.Series(limit_of_part(whole, rules), table.index))
    mean = (shown / whole).where((whole > 0) & (shown >= 0))
    return made.assign(
        sum_value=shown.astype(float), mean=mean, sd=np.sqrt(mean * (1 - mean).clip(lower=0))
    )


def _sums_of_windows(table: pd.DataFrame, windows: Sequence[tuple[int, int]]) -> list[Split]:
    """Find the windows that consist of shorter ones whose exact counts add up to theirs."""
    keys = ["cohort_id", "covariate_id"]
    place = table[[*keys, "time_id"]].assign(row=np.arange(len(table)))
    rows = place.pivot(index=keys, columns="time_id", values="row").reindex(
        columns=range(1, len(windows) + 1)
    )
    exact = table["sum_value"].to_numpy(float)
    found = []
    for whole, parts in _divided(windows):
        at = rows[rows[whole].notna()]
        positions = at[[*parts]].to_numpy(float)
        known = ~np.isnan(positions)
        counts = np.where(known, exact[np.where(known, positions, 0).astype(np.int64)], 0.0)
        total = at[whole].to_numpy(np.int64)
        use = known & (counts.sum(axis=1) == exact[total])[:, None]
        totals = np.broadcast_to(total[:, None], use.shape)[use]
        if len(totals):
            found.append((positions[use].astype(np.int64), totals))
    return found


def _divided(windows: Sequence[tuple[int, int]]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the windows that others, which follow each other, make up: ids of all and of parts."""
    starts: dict[int, list[tuple[int, int]]] = {}
    for number, (first, last) in enumerate(windows, 1):
        starts.setdefault(first, []).append((last, number))
    for whole, (first, last) in enumerate(windows, 1):
        open_: list[tuple[int, tuple[int, ...]]] = [(first, ())]
        while open_:
            begin, parts = open_.pop()
            for end, number in starts.get(begin, ()):
                if end == last and parts:
                    yield whole, (*parts, number)
                elif end < last:
                    open_.append((end + 1, (*parts, number)))


def _values(table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release the distributions of other covariates of windows."""
    made = released_distributions(table, rules)
    return made.rename(columns={"average_value": "mean", "standard_deviation": "sd"})
