"""Entry of the people of two cohorts into their comparison, rule by rule, with attrition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from steropes.data.html_representations import TextInHtml
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Age, Count, Day, Days, Listed, YesNo
from steropes.designs.values.dates_and_ages import AgeRule
from steropes.errors import DataError
from steropes.studies.cohorts.attrition import Attrition
from steropes.studies.cohorts.cohort_table import CohortTable, require_cohorts
from steropes.studies.cohorts.people_frame_with_hidden_rows import People, rules_of_run
from steropes.studies.cohorts.two_cohort_entry_rules import (
    NEVER,
    InclusionRule,
    PersonData,
    Rows,
    common_period,
    days,
    distinct_rows,
    has_person,
    has_usable_period,
    in_nesting_cohort,
    is_first_in_arm,
    observed,
    random_sample,
    resolve_people_in_both_arms,
    within_ages,
    within_study_dates,
)
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.observation_periods import DATED, WITH_PERSON
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.settings.concept_id_type import ConceptId

__all__ = ["Comparison", "ComparisonRules", "compare_cohorts"]

Both = Literal["keep first, truncate to second", "keep first", "remove all", "keep all"]
BOTH: dict[str, str] = {
    "keep first, truncate to second": "Keep first, truncate when entering second cohort",
    "keep first": "Keep first when in both cohorts",
    "remove all": "Remove subjects in both cohorts",
}


class ComparisonRules(Settings):
    """Rules that select the people of two cohorts, applied in the order listed here.

    Parameters
    ----------
    both : str
        How people in both cohorts are treated. "keep first": they stay in the cohort that they
        entered first; those who entered both on one day are left out. "keep first, truncate to
        second" (the default): the same, and their time in the first cohort ends the day before
        they enter the second. "remove all": they are left out. "keep all": no rule.
    first_only : bool, default True
        Only a person's first entry in each cohort counts.
    washout_days : int, default 365
        Days of observation required before the start, in the observation period that contains the
        start; periods that overlap or touch are joined. With 0 the start must still lie in an
        observation period.
    common_period : bool, default True
        Keep those who start while both cohorts are entered: from the later of the two first starts
        to the earlier of the two last starts, of all entries before any other rule.
    min_age, max_age : int, optional
        Limits of completed years of age at the start, both inclusive.
    sexes : tuple of int, default ()
        Gender concepts to keep; empty keeps all.
    study_start, study_end : date, optional
        Keep those who start between these dates, both inclusive. No time at risk extends beyond
        ``study_end``. If a time is given, its date is used.
    max_people : int, default 0
        Largest number of entries in an arm; larger arms are sampled. 0 means no limit.
    seed : int, default 1
        Seed of that sample, which depends only on the seed, the person ids and the days.
    age_rule : {"birthdays", "365.25 days"}, default "birthdays"
        Whether a year of age is completed on the birthday, or after 365.25 days as in R's
        CohortMethod, where most people are 18 a day after their 18th birthday. A missing month or
        day of birth is taken as the first; people born on 29 February have birthdays on 1 March in
        other years.

    Examples
    --------
    >>> from datetime import date
    >>> from steropes.studies.cohorts import ComparisonRules
    >>> rules = ComparisonRules(both="remove all", min_age=18, study_start=date(2008, 1, 1))
    >>> rules.washout_days
    365
    """

    both: Both = "keep first, truncate to second"
    first_only: YesNo = True
    washout_days: Days = 365
    common_period: YesNo = True
    min_age: Age | None = None
    max_age: Age | None = None
    sexes: Listed[ConceptId] = ()
    study_start: Day | None = None
    study_end: Day | None = None
    max_people: Count = 0
    seed: Count = 1
    age_rule: AgeRule = "birthdays"

    def __post_init__(self) -> None:
        """Refuse a study that ends before it starts."""
        if self.study_start and self.study_end and self.study_end < self.study_start:
            raise DataError(
                f"study_end {self.study_end} lies before study_start {self.study_start}"
            )


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(TextInHtml):
    """The entries of a target and a comparator cohort that passed the rules.

    Attributes
    ----------
    target, comparator : int
        Ids of the cohorts.
    entries : DataFrame
        One row per entry, ordered by person, start and arm: ``person_id``, ``treated`` (1 target),
        ``start`` (a date), and in days from the start: ``to_end`` (last day in the cohort),
        ``to_observation_end``, ``to_switch`` (entry into the other cohort; very large if there is
        none), and ``observed_before`` (days of observation before the start).
    attrition : DataFrame
        One row per rule: ``rule``, ``target_people``, ``target_entries``, ``comparator_people``,
        ``comparator_entries``.
    rules : ComparisonRules
        The rules that were applied.
    names : dict of str
        Names of ``target`` and ``comparator``.
    database : str
        Identity of the database.
    nesting : int or None
        The cohort to which people were restricted.
    notes : tuple of DataNote
        Irregularities of the data of all people in the two cohorts, whatever the rules.

    See Also
    --------
    compare_cohorts : Apply rules to two cohorts.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import compare_cohorts, drug_era_cohorts
    >>> db = synthetic_database(200)
    >>> comparison = compare_cohorts(db, drug_era_cohorts(db, {1: 1118084, 2: 1124300}), 1, 2)
    >>> comparison.names
    {'target': 'celecoxib', 'comparator': 'diclofenac'}
    >>> comparison.entries.columns.tolist()[:4]
    ['person_id', 'treated', 'start', 'to_end']
    """

    target: int
    comparator: int
    entries: pd.DataFrame
    attrition: pd.DataFrame
    rules: ComparisonRules
    names: dict[str, str]
    database: str
    nesting: int | None = None
    notes: tuple[DataNote, ...] = ()

    def __repr__(self) -> str:
        from steropes.studies.disclosure import shown_count

        n1, n0 = (int((self.entries["treated"] == a).sum()) for a in (1, 0))
        rules = rules_of_run(self.entries)
        return (
            f"Comparison({self.names['target']}: {shown_count(n1, rules)} entries, "
            f"{self.names['comparator']}: {shown_count(n0, rules)})"
        )


def compare_cohorts(
    db: OmopDatabase,
    cohorts: CohortTable,
    target: int,
    comparator: int,
    rules: ComparisonRules | None = None,
    *,
    nesting: int | None = None,
) -> Comparison:
    """Apply the rules to the entries of two cohorts.

    Parameters
    ----------
    db : OmopDatabase
        Source of observation periods, births and sexes.
    cohorts : CohortTable
        Contains both cohorts, and the nesting cohort if there is one.
    target, comparator : int
        Ids of the cohorts.
    rules : ComparisonRules, optional
        The rules. Default: those of ``ComparisonRules()``.
    nesting : int, optional
        Id of a cohort that people must be in on the day of their start.

    Returns
    -------
    Comparison
        An arm may be empty; see its attrition.

    Raises
    ------
    DataError
        Target and comparator are the same cohort, the cohorts belong to another database, the
        nesting cohort does not exist, or neither target nor comparator has entries.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import compare_cohorts, drug_era_cohorts
    >>> db = synthetic_database(200)
    >>> cohorts = drug_era_cohorts(db, {1: 1118084, 2: 1124300})
    >>> comparison = compare_cohorts(db, cohorts, target=1, comparator=2)
    >>> comparison.attrition["rule"].tolist()[2:4]
    ['First exposure only', '365 days of prior observation']
    """
    rules = rules or ComparisonRules()
    target, comparator = int(target), int(comparator)
    if cohorts.database and cohorts.database != db.identity:
        raise DataError(f"the cohorts are of the database {cohorts.database}, not of {db.identity}")
    if nesting is not None:
        require_cohorts(cohorts, [nesting], "nesting cohort")
    rows, repeated = _both_cohorts(cohorts, target, comparator)
    # All people in either cohort, so that the notes of two analyses are the same.
    persons = PersonData(db, np.sort(pd.unique(rows.person)))
    attrition = Attrition()
    attrition.count("Original cohorts", rows.person, rows.treated)
    period = common_period(rows)
    rows = resolve_people_in_both_arms(rows, rules.both)
    if rules.both in BOTH:
        attrition.count(BOTH[rules.both], rows.person, rows.treated)
    if rules.first_only:
        rows = rows.where(is_first_in_arm(rows))
        attrition.count("First exposure only", rows.person, rows.treated)
    with_dates = has_usable_period(rows, persons)
    if not with_dates.all():
        rows = rows.where(with_dates)
        attrition.count(DATED, rows.person, rows.treated)
    known = has_person(rows, persons)
    if not known.all():
        rows = rows.where(known)
        attrition.count(WITH_PERSON, rows.person, rows.treated)
    rows = observed(rows, persons)
    rows = rows.where(rows.start - rows.observed_from >= rules.washout_days)
    attrition.count(_washout_text(rules), rows.person, rows.treated)
    for rule, keep in _later_rules(rules, persons, period, cohorts, nesting):
        rows = rows.where(keep(rows))
        attrition.count(rule, rows.person, rows.treated)
    return Comparison(
        target,
        comparator,
        _entries(rows, rules),
        attrition.frame(),
        rules,
        {"target": cohorts.name(target), "comparator": cohorts.name(comparator)},
        db.identity,
        None if nesting is None else int(nesting),
        (*persons.notes, *repeated),
    )


def _both_cohorts(
    cohorts: CohortTable, target: int, comparator: int
) -> tuple[Rows, tuple[DataNote, ...]]:
    """Return the entries of two cohorts in order, and notes on entries that are repeated."""
    if target == comparator:
        raise DataError(f"target and comparator are the same cohort, {target}")
    both = cohorts.only([target, comparator])
    order = np.lexsort((both.end, both.definition == comparator, both.start, both.subject))
    return distinct_rows(
        Rows.of(
            both.subject[order],
            (both.definition[order] == target).astype(np.int8),
            days(both.start[order]),
            days(both.end[order]),
        )
    )


def _washout_text(rules: ComparisonRules) -> str:
    """Describe the rule on prior observation."""
    if rules.washout_days:
        return f"{rules.washout_days} days of prior observation"
    return "Start in an observation period"


def _later_rules(
    rules: ComparisonRules,
    persons: PersonData,
    period: tuple[int, int],
    cohorts: CohortTable,
    nesting: int | None,
) -> Iterator[tuple[str, InclusionRule]]:
    """Yield the requested rules after the washout, by name and in their order."""
    if rules.common_period:
        first, last = period
        yield "Restrict to common period", lambda r: (r.start >= first) & (r.start <= last)
    if rules.min_age is not None or rules.max_age is not None:
        low = 0 if rules.min_age is None else rules.min_age
        upto = "or older" if rules.max_age is None else f"to {rules.max_age} years old"
        of_years = within_ages(rules.min_age, rules.max_age, persons, rules.age_rule)
        yield f"From {low} {upto}", of_years
    if rules.sexes:
        yield "Restrict to gender", lambda r: np.isin(persons.birth(r.person)[1], rules.sexes)
    if nesting is not None:
        yield "Restrict to nesting cohort", in_nesting_cohort(cohorts, int(nesting))
    if rules.study_start or rules.study_end:
        yield "Restrict to study period", within_study_dates(rules.study_start, rules.study_end)
    if rules.max_people:
        yield "Random sample", random_sample(rules.max_people, rules.seed)


def _entries(rows: Rows, rules: ComparisonRules) -> People:
    """Return the rows as a table in days from the start, truncated at the end of the study."""
    last = NEVER
    if rules.study_end:
        last = int(np.datetime64(rules.study_end, "D").astype(np.int64))
    return People(
        {
            "person_id": rows.person,
            "treated": rows.treated.astype(np.int64),
            # In seconds, because nanoseconds cover only the years 1678 to 2261.
            "start": rows.start.astype("datetime64[D]").astype("datetime64[s]"),
            "to_end": np.minimum(rows.end, last) - rows.start,
            "to_observation_end": np.minimum(rows.observed_to, last) - rows.start,
            "to_switch": rows.switch - rows.start,
            "observed_before": rows.start - rows.observed_from,
        }
    )
