"""Selection of cases: observation periods with an outcome, and the rules that restrict them.

A case is an observation period (or the part of one within a study period or a spell of the nesting
cohort). Its days are counted from the first day of the observation period; ``start`` and ``end``
are the first and last day that count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from steropes.designs.case_series.cases_and_observation import Cases
from steropes.designs.values.dates_and_ages import DAYS_PER_YEAR
from steropes.errors import DataError
from steropes.studies.database.age_sql import birth_day_sql, birthday_sql
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.observation_periods import (
    DATED,
    WITH_PERSON,
    joined_periods,
    joined_spells,
    people_notes,
    undated_periods,
)
from steropes.studies.database.omop import OmopDatabase, Workspace
from steropes.studies.disclosure import DisclosureRules, rules_in_force, shown_count
from steropes.studies.sccs.cases.era_sources import EraSources
from steropes.studies.sccs.specification.case_series_settings import CaseRules

__all__ = ["Population", "find_cases"]


@dataclass(frozen=True, repr=False)
class Population(Cases):
    """Cases that were found in a database.

    Attributes
    ----------
    attrition : DataFrame
        One row per rule: ``rule``, and the remaining ``subjects``, ``events``, ``periods`` and
        ``days``.
    prevalence : float
        Number of people with the outcome divided by the number of observation periods (within
        study periods and spells of the nesting cohort) of all people.
    first_only : bool
        Whether only first outcomes count, by the rule or because no one has two.
    restricted : (date, date) or None
        The range of days with the exposure in the database, if time was restricted to it.
    notes : tuple of DataNote
        Irregularities of the data of people with the outcome.
    of_run : DisclosureRules
        The rules of the run in which the cases were found.
    """

    attrition: pd.DataFrame
    prevalence: float
    first_only: bool
    restricted: tuple[Any, Any] | None = None
    notes: tuple[DataNote, ...] = ()
    of_run: DisclosureRules = field(default_factory=rules_in_force)

    def count_text(self, count: int) -> str:
        """Format a number of people by the disclosure rules in force and those of the run."""
        return shown_count(count, self.of_run)


def find_cases(
    db: OmopDatabase, work: Workspace, rules: CaseRules, sources: EraSources
) -> Population:
    """Find the cases and create the temporary tables ``cases`` and ``outcomes`` in ``work``.

    The table ``periods`` of everybody's joined observation periods is made if it does not exist.

    Raises
    ------
    DataError
        Births are unknown although ages are needed.
    """
    work.run(f"CREATE OR REPLACE TEMP TABLE outcomes AS {sources.outcomes()}")
    rows: list[tuple] = []
    work.run(f"CREATE TEMP TABLE IF NOT EXISTS periods AS {joined_periods(db)}")
    of_cases = "SELECT * FROM periods WHERE person_id IN (SELECT person_id FROM outcomes)"
    notes = (
        *people_notes(db, work, "SELECT person_id FROM outcomes", of_cases),
        *sources.undated_outcomes(),
    )
    _first_cases(db, work)
    _count(work, rows, "any outcome in an observation period")
    _count_undated(db, work, rows)
    _count_unknown_people(db, work, rows)
    if rules.study_periods:
        _within_periods(work, rules)
        _count(work, rows, "within the study periods")
    if rules.nesting_cohort is not None:
        # Overlapping spells would count their common days twice.
        spells = joined_spells(sources.nesting())
        work.run(f"CREATE OR REPLACE TEMP TABLE spells AS {spells}")
        _within_spells(work)
        _count(work, rows, "within the nesting cohort")
    prevalence = _prevalence(work, rules, rows[-1][1])
    once = rows[-1][1] == rows[-1][2]
    if rules.max_cases:
        _sample(work, rules, rows)
    _on_days(work)
    restricted = _apply_rules(work, rules, sources, rows)
    _keep(work)
    attrition = pd.DataFrame(rows, columns=["rule", "subjects", "events", "periods", "days"])
    first_only = rules.first_outcome_only or once
    return _population(work, attrition, prevalence, first_only, restricted, notes)


# -- construction of the cases -------------------------------------------------------------------


def _first_cases(db: OmopDatabase, work: Workspace) -> None:
    """Create the table ``cases`` of the joined observation periods with an outcome."""
    work.run(f"""
    CREATE OR REPLACE TEMP TABLE cases AS
    WITH ends AS (SELECT max(last) AS latest FROM periods),
    people AS (
        SELECT person_id::BIGINT AS person_id, min(gender_concept_id)::BIGINT AS sex,
               {birth_day_sql(db.columns("person"))} AS born
        FROM {db.table("person")} WHERE person_id IN (SELECT person_id FROM outcomes) GROUP BY 1)
    SELECT row_number() OVER (ORDER BY person_id, o.first) AS case_id, person_id,
           o.first AS observed, o.first, o.last, o.last AS until, o.last = latest AS end_known,
           sex, born,
           CASE WHEN born IS NOT NULL THEN greatest(0, o.first - born) END::DOUBLE AS age
    FROM periods o JOIN people USING (person_id), ends
    WHERE EXISTS (SELECT 1 FROM outcomes x WHERE x.person_id = o.person_id
                  AND x.on_day BETWEEN o.first AND o.last)
    """)


def _count_undated(db: OmopDatabase, work: Workspace, rows: list[tuple]) -> None:
    """Count outcomes in periods that lack a date in an attrition line of their own, if any.

    Such periods add their outcomes and their number to the first line; they have no days to count.
    """
    undated = undated_periods(db, "SELECT person_id FROM outcomes")
    [(people, events, periods)] = work.rows(f"""
        WITH undated AS ({undated}),
        lost AS (
            SELECT DISTINCT x.person_id, x.on_day FROM outcomes x JOIN undated u
              ON u.person_id = x.person_id AND x.on_day BETWEEN u.earliest AND u.latest
            WHERE NOT EXISTS (SELECT 1 FROM periods p WHERE p.person_id = x.person_id
                              AND x.on_day BETWEEN p.first AND p.last))
        SELECT count(DISTINCT person_id) FILTER (
                   person_id NOT IN (SELECT person_id FROM cases)),
               count(*),
               (SELECT count(*) FROM undated u WHERE EXISTS (
                   SELECT 1 FROM lost l WHERE l.person_id = u.person_id
                   AND l.on_day BETWEEN u.earliest AND u.latest))
        FROM lost""")
    if events:
        rule, *counts = rows.pop()
        wider = (counts[0] + people, counts[1] + events, counts[2] + periods, counts[3])
        rows += [(rule, *wider), (DATED, *counts)]


def _count_unknown_people(db: OmopDatabase, work: Workspace, rows: list[tuple]) -> None:
    """Count people without a row in ``person`` in an attrition line of their own, if any."""
    [lost] = work.rows(f"""
        WITH lost AS (
            SELECT person_id, p.first, p.last, (SELECT count(*) FROM outcomes x
                WHERE x.person_id = p.person_id AND x.on_day BETWEEN p.first AND p.last) AS n
            FROM periods p WHERE person_id IN (SELECT person_id FROM outcomes)
            AND person_id NOT IN (SELECT person_id FROM {db.table("person")}
                                  WHERE person_id IS NOT NULL))
        SELECT count(DISTINCT person_id), coalesce(sum(n), 0)::BIGINT, count(*),
               coalesce(sum(last - first + 1), 0)::BIGINT
        FROM lost WHERE n > 0""")
    if lost[2]:
        left = rows[-1][1:]
        rows[:] = [(rule, *(n + k for n, k in zip(c, lost, strict=True))) for rule, *c in rows]
        rows.append((WITH_PERSON, *left))


def _within_periods(work: Workspace, rules: CaseRules) -> None:
    """Restrict the cases to the study periods."""
    spans = ", ".join(
        f"(DATE '{start or '0001-01-01'}', DATE '{end or '9999-12-31'}')"
        for start, end in rules.study_periods
    )
    work.run(f"""
    CREATE OR REPLACE TEMP TABLE study_periods AS
    SELECT col0 AS first, col1 AS last FROM (VALUES {spans})""")
    _cut_to("study_periods s ON c.last >= s.first AND c.first <= s.last", work)


def _within_spells(work: Workspace) -> None:
    """Restrict the cases to the spells of the nesting cohort."""
    _cut_to(
        "spells s ON c.person_id = s.person_id AND c.last >= s.first AND c.first <= s.last", work
    )


def _cut_to(join: str, work: Workspace) -> None:
    """Cut the cases to spells; at the end of a spell, observation ends by the rule."""
    work.run(f"""
    CREATE OR REPLACE TEMP TABLE cases AS
    SELECT row_number() OVER (
               ORDER BY c.person_id, c.observed, greatest(s.first, c.first)) AS case_id,
           c.person_id, c.observed, greatest(s.first, c.first) AS first,
           least(s.last, c.last) AS last, c.until,
           c.end_known OR s.last < c.last AS end_known, c.sex, c.born, c.age
    FROM cases c JOIN {join}""")


def _prevalence(work: Workspace, rules: CaseRules, subjects: int) -> float:
    """Divide the number of people with the outcome by that of observation periods or their parts.

    A part is what an observation period shares with a study period and with a spell of the nesting
    cohort, as far as the rules have them.
    """
    first, last, joins = "o.first", "o.last", ""
    if rules.study_periods:
        joins += f" JOIN study_periods t ON {last} >= t.first AND {first} <= t.last"
        first, last = f"greatest({first}, t.first)", f"least({last}, t.last)"
    if rules.nesting_cohort is not None:
        joins += " JOIN spells s ON o.person_id = s.person_id"
        joins += f" AND {last} >= s.first AND {first} <= s.last"
    [(parts,)] = work.rows(f"SELECT count(*) FROM periods o{joins}")
    return subjects / parts if parts else 0.0


def _sample(work: Workspace, rules: CaseRules, rows: list[tuple]) -> None:
    """Draw a random sample that depends only on the person and the seed."""
    if rows[-1][3] <= rules.max_cases:
        return
    work.run(f"""
    CREATE OR REPLACE TEMP TABLE cases AS
    SELECT c.* FROM cases c
    WHERE EXISTS (SELECT 1 FROM outcomes x WHERE x.person_id = c.person_id
                  AND x.on_day BETWEEN c.first AND c.last)
    ORDER BY md5(concat(person_id, '-', {int(rules.seed)})), case_id
    LIMIT {int(rules.max_cases)}""")
    _count(work, rows, f"in a random sample of {rules.max_cases}")


def _on_days(work: Workspace) -> None:
    """Convert dates to days since the first day of the observation period."""
    work.run("""
    CREATE OR REPLACE TEMP TABLE outcomes AS
    SELECT case_id, c.person_id, (on_day - observed)::INTEGER AS day,
           on_day = min(on_day) OVER (PARTITION BY o.person_id) AS is_first
    FROM outcomes o LEFT JOIN cases c
      ON c.person_id = o.person_id AND on_day BETWEEN c.observed AND c.last""")
    work.run("DELETE FROM outcomes WHERE case_id IS NULL")
    work.run("""
    CREATE OR REPLACE TEMP TABLE cases AS
    SELECT case_id, person_id, observed, (first - observed)::INTEGER AS start,
           (last - observed)::INTEGER AS last, (until - observed)::INTEGER AS until, end_known,
           sex, born, age FROM cases""")


# -- the rules -----------------------------------------------------------------------------------


def _apply_rules(
    work: Workspace, rules: CaseRules, sources: EraSources, rows: list[tuple]
) -> tuple[Any, Any] | None:
    """Apply the rules in order and count the cases each leaves; return the restricted period."""
    restricted = None
    if rules.first_outcome_only:
        work.run("DELETE FROM outcomes WHERE NOT is_first")
        _count_days(work, rows, "first outcome only")
    if rules.naive_days:
        work.run(f"UPDATE cases SET start = greatest(start, {int(rules.naive_days)})")
        _cleared(work)
        _count_days(work, rows, f"after {rules.naive_days} days of observation")
    if rules.min_age is not None or rules.max_age is not None:
        _by_age(work, rules)
        _count_days(work, rows, _age_words(rules))
    if rules.sexes:
        ids = ", ".join(str(s) for s in rules.sexes)
        work.run(f"DELETE FROM cases WHERE sex IS NULL OR sex NOT IN ({ids})")
        _count_days(work, rows, f"of sex {ids}")
    if rules.restrict_to_exposure is not None:
        restricted = _while_seen(work, rules, sources)
        name = sources.name(rules.exposures_from, rules.restrict_to_exposure)
        _count_days(work, rows, f"while {name} was seen in the database")
    return restricted


def _by_age(work: Workspace, rules: CaseRules) -> None:
    """Restrict time to the ages from ``min_age`` to ``max_age``, in completed years."""
    [(unknown,)] = work.rows("SELECT count(*) FROM cases WHERE age IS NULL")
    if unknown:
        raise DataError(
            f"{shown_count(unknown)} cases have no year_of_birth, which min_age and max_age need"
        )
    if rules.min_age is not None:
        work.run(f"UPDATE cases SET start = greatest(start, {_years_old(rules, rules.min_age)})")
    if rules.max_age is not None:
        last = f"{_years_old(rules, rules.max_age + 1)} - 1"
        work.run(f"UPDATE cases SET end_known = TRUE, last = {last} WHERE last > {last}")
    _cleared(work)


def _years_old(rules: CaseRules, years: int) -> str:
    """Return SQL of the day of a case on which the person has completed some years of age."""
    if rules.age_rule == "365.25 days":
        return f"{round(years * DAYS_PER_YEAR)} - age"
    return f"({birthday_sql('born', years)} - observed)"


def _while_seen(work: Workspace, rules: CaseRules, sources: EraSources) -> tuple[Any, Any]:
    """Restrict time to the days between the first and the last exposure in the database."""
    exposure = rules.restrict_to_exposure
    assert exposure is not None
    table = rules.exposures_from
    relation = sources.relation(table, sources.members(table, [exposure]))
    [(first, last)] = work.rows(f"SELECT min(first), max(last) FROM ({relation})")
    if first is None:
        raise DataError(
            f"restrict_to_exposure: nobody in the database has an era of {exposure} "
            f"({sources.name(table, exposure)})"
        )
    work.run(
        "UPDATE cases SET start = greatest(start, $1::DATE - observed), "
        "last = least(last, $2::DATE - observed), "
        "end_known = end_known OR observed + last > $2::DATE",  # The rule ends observation.
        [first, last],
    )
    _cleared(work)
    return first, last


def _age_words(rules: CaseRules) -> str:
    """Describe the rule on age."""
    if rules.max_age is None:
        return f"at age {rules.min_age} or older"
    if rules.min_age is None:
        return f"at age {rules.max_age} or younger"
    return f"at ages {rules.min_age} to {rules.max_age}"


def _cleared(work: Workspace) -> None:
    """Remove cases with at most one day, which have no other day for comparison."""
    work.run("DELETE FROM cases WHERE start >= last")


def _keep(work: Workspace) -> None:
    """Number the remaining cases from 0, sorted by person and time."""
    work.run("""
    CREATE OR REPLACE TEMP TABLE kept AS
    SELECT (row_number() OVER (ORDER BY person_id, observed, start) - 1)::BIGINT AS case_id,
           case_id AS old, person_id, observed, start, last, until, age, end_known
    FROM cases c WHERE EXISTS (
        SELECT 1 FROM outcomes o WHERE o.case_id = c.case_id AND o.day BETWEEN c.start AND c.last)
    """)
    work.run("""
    CREATE OR REPLACE TEMP TABLE outcomes AS
    SELECT k.case_id, o.day FROM outcomes o JOIN kept k
      ON k.old = o.case_id AND o.day BETWEEN k.start AND k.last""")
    work.run("CREATE OR REPLACE TEMP TABLE cases AS SELECT * EXCLUDE (old) FROM kept")
    work.run("DROP TABLE kept")


# -- counts --------------------------------------------------------------------------------------

COUNTS = """
    SELECT count(DISTINCT c.person_id), coalesce(sum(n), 0)::BIGINT, count(*),
           coalesce(sum({days} + 1), 0)::BIGINT
    FROM cases c JOIN (
        SELECT c.case_id, count(*) AS n FROM cases c JOIN outcomes o ON {on} GROUP BY 1
    ) USING (case_id)"""


def _count(work: Workspace, rows: list[tuple], rule: str) -> None:
    """Add a line of attrition while tables contain dates."""
    on = "o.person_id = c.person_id AND o.on_day BETWEEN c.first AND c.last"
    [counts] = work.rows(COUNTS.format(days="c.last - c.first", on=on))
    rows.append((rule, *map(int, counts)))


def _count_days(work: Workspace, rows: list[tuple], rule: str) -> None:
    """Add a line of attrition after the conversion to days."""
    on = "o.case_id = c.case_id AND o.day BETWEEN c.start AND c.last"
    [counts] = work.rows(COUNTS.format(days="c.last - c.start", on=on))
    rows.append((rule, *map(int, counts)))


def _population(
    work: Workspace,
    attrition: pd.DataFrame,
    prevalence: float,
    first_only: bool,
    restricted: tuple[Any, Any] | None,
    notes: tuple[DataNote, ...],
) -> Population:
    """Read the population from the tables ``cases`` and ``outcomes``."""
    found = work.arrays(
        "SELECT person_id, (observed - DATE '1970-01-01')::BIGINT AS observed, "
        "start::BIGINT AS start, last::BIGINT AS last, coalesce(age, 'nan'::DOUBLE) AS age, "
        "end_known FROM cases ORDER BY case_id"
    )
    events = work.arrays("SELECT case_id, day::BIGINT AS day FROM outcomes ORDER BY 1, 2")
    columns = {**found, **events}
    return Population(
        person=columns["person_id"],
        observed=columns["observed"],
        start=columns["start"],
        end=columns["last"],
        age=columns["age"],
        end_known=columns["end_known"].astype(bool),
        outcome_case=columns["case_id"],
        outcome_day=columns["day"],
        attrition=attrition,
        prevalence=prevalence,
        first_only=first_only,
        restricted=restricted,
        notes=notes,
    )
