"""Covariates at the index date as a sparse 0/1 design, one column per concept.

DuckDB finds the distinct (person, covariate) pairs, counts and numbers the columns and sorts the
entries. They are read as Arrow batches directly into the design's column blocks, without a dense
matrix or a Python loop over people.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from steropes.errors import DataError
from steropes.studies.cohorts import Cohort
from steropes.studies.database.data_notes import DataNote, distinct
from steropes.studies.database.dates import age_sql
from steropes.studies.database.descendants import Descendants
from steropes.studies.database.irregular_rows import last_day, reversed_eras
from steropes.studies.database.omop import UNNAMED, OmopDatabase, Workspace
from steropes.studies.execution.validation import LONGEST, concepts, share, whole, yes_or_no

if TYPE_CHECKING:
    from steropes.design import Design

__all__ = ["CovariateRules", "Covariates", "extract_covariates"]

# domain: (table, concept column, first day, last day). Drugs are the ingredients of the CDM's drug
# eras; an era counts if any of its days lies in the window.
DOMAINS = {
    "condition": ("condition_occurrence", "condition_concept_id", "condition_start_date", None),
    "drug": ("drug_era", "drug_concept_id", "drug_era_start_date", "drug_era_end_date"),
    "procedure": ("procedure_occurrence", "procedure_concept_id", "procedure_date", None),
    "measurement": ("measurement", "measurement_concept_id", "measurement_date", None),
    "observation": ("observation", "observation_concept_id", "observation_date", None),
}

ALONE = "list the descendants too and set descendants=False (--no-descendants)"
PERSONAL = ("age", "sex", "index year")
ORDER = (*PERSONAL, *DOMAINS)  # The order of the columns.


class NothingLeftError(DataError):
    """Raised when no covariate is common enough."""


@dataclass(frozen=True)
class CovariateRules:
    """Rules that select the covariates.

    Attributes
    ----------
    window_days : int, default 365
        Records count from this many days before the start up to the start itself.
    min_people : int, default 10
        Columns of fewer people are dropped.
    min_share : float, default 0.001
        Columns of a smaller share of people are dropped.
    exclude : tuple of int
        Concepts to leave out. The two study drugs and their descendants always are.
    descendants : bool, default True
        Also leave out all descendants of these concepts.
    """

    window_days: int = 365
    min_people: int = 10
    min_share: float = 0.001
    exclude: tuple[int, ...] = ()
    descendants: bool = True

    def __post_init__(self) -> None:
        yes_or_no("descendants", self.descendants)
        whole("window_days", self.window_days, 0, LONGEST)
        whole("min_people", self.min_people, 0)
        share("min_share", self.min_share)
        object.__setattr__(self, "exclude", concepts("exclude", self.exclude))


@dataclass(frozen=True, repr=False)
class Covariates:
    """A 0/1 design with one row per person of a cohort, in the cohort's order.

    Attributes
    ----------
    design : Design
        n people × p covariates.
    columns : DataFrame
        One row per column of the design, in order: ``name``, ``domain``, ``concept_id``,
        ``people``.
    dropped : DataFrame
        One row per domain: ``domain``, ``kept``, ``rare`` (too few people), ``redundant``
        (everybody has the column, or it is the complement of another).
    entries : int
        Number of ones in the design.
    notes : tuple of DataNote
        Irregularities of the data that affect the covariates.
    """

    design: Design
    columns: pd.DataFrame
    dropped: pd.DataFrame
    entries: int
    notes: tuple[DataNote, ...] = ()

    def __repr__(self) -> str:
        return f"Covariates({len(self.columns):,} columns)"


def extract_covariates(
    db: OmopDatabase, cohort: Cohort, rules: CovariateRules | None = None
) -> Covariates:
    """Extract the covariates of the people of a cohort built by :func:`new_user_cohort`.

    Row i of the design is row i of ``cohort.people``. ``db`` may be a different connection from the
    one that built the cohort, but must be to the same database.

    The covariates are completed years of age in groups of five (a missing month or day of birth
    counts as the first), sex, calendar year of the start, and one column for each condition, drug
    (ingredient), procedure, measurement and observation concept recorded in the window. Concept 0
    ("no matching concept") has no column. A column of everybody repeats the intercept and is
    dropped. Of two complementary levels (usually the sexes) the more common one is dropped.

    Raises
    ------
    DataError
        No covariate is left, the cohort belongs to another database, a concept in ``exclude`` is
        unknown, or the vocabulary has no links to find descendants.
    """
    rules = rules or CovariateRules()
    if cohort.database != db.identity:
        raise DataError(
            f"the cohort holds people of the database {cohort.database}, not of {db.identity}; "
            "person ids are not comparable across databases"
        )
    for concept_id in rules.exclude:
        db.concept_name(concept_id)  # Raises for an unknown concept.
    family = Descendants(db)
    excluded = {*cohort.drug_concepts, *rules.exclude}
    if rules.descendants and rules.exclude:
        tables = [table for table, *_ in DOMAINS.values()]
        excluded |= {*family.members(rules.exclude, tables, "the concepts to exclude", ALONE)}
    with db.workspace() as work:
        _load_people(work, cohort)
        _collect(db, work, rules, sorted(excluded))
        found = _assemble(db, work, rules, len(cohort.people))
        notes = [*family.notes]
        for table, _, first, last in DOMAINS.values():
            if last is not None and table in db.tables:
                of_people = "person_id IN (SELECT person_id FROM cohort)"
                notes += reversed_eras(work, db.table(table), table, (first, last), of_people)
    return replace(found, notes=distinct(notes))


def _load_people(work: Workspace, cohort: Cohort) -> None:
    """Create the temporary table ``cohort`` of the people, in their order."""
    people = pd.DataFrame(
        {
            "row_id": np.arange(len(cohort.people), dtype=np.int32),
            "person_id": cohort.people["person_id"].to_numpy(),
            "start": cohort.people["start"].to_numpy(),
        }
    )
    work.connection.register("people", people)
    work.run(
        "CREATE TEMP TABLE cohort AS SELECT row_id, person_id, start::DATE AS start FROM people"
    )
    work.connection.unregister("people")


def _assemble(db: OmopDatabase, work: Workspace, rules: CovariateRules, n: int) -> Covariates:
    """Choose the columns and read the design from ``entries``."""
    from steropes.design import Design

    least = max(rules.min_people, rules.min_share * n)
    # A column of everybody repeats the intercept. So do two complementary levels (such as the
    # sexes) together: a penalised fit could shift their coefficients against each other without
    # end, so the more common level is dropped. With three or more levels the penalty settles this.
    work.run(f"""
    CREATE TEMP TABLE columns AS
    WITH counted AS (
        SELECT domain, code, count(*) AS people FROM entries GROUP BY domain, code),
    common AS (
        SELECT *, row_number() OVER level AS place
        FROM counted WHERE people >= {float(least)!r}
        WINDOW level AS (PARTITION BY domain ORDER BY people DESC, code DESC)),
    pairs AS (
        SELECT domain FROM common WHERE domain < {len(PERSONAL)}
        GROUP BY domain HAVING count(*) = 2 AND sum(people) = {n})
    SELECT domain, code, people,
           CASE WHEN place IS NULL THEN 'rare'
                WHEN people = {n} OR (place = 1 AND domain IN (FROM pairs)) THEN 'redundant'
                ELSE 'kept' END AS fate
    FROM counted LEFT JOIN common USING (domain, code, people)
    """)
    work.run("""
    CREATE TEMP TABLE kept AS
    SELECT domain, code, people,
           (row_number() OVER (ORDER BY domain, code) - 1)::INTEGER AS column_id
    FROM columns WHERE fate = 'kept'
    """)
    kept = [
        (ORDER[domain], code, people)
        for domain, code, people in work.rows(
            "SELECT domain, code, people FROM kept ORDER BY column_id"
        )
    ]
    if not kept:
        raise NothingLeftError(f"no covariate is left: none is shared by {least:g} people or more")
    names = db.concept_names(code for domain, code, _ in kept if _is_concept(domain))
    columns = pd.DataFrame(
        {
            "name": [_name(domain, code, names) for domain, code, _ in kept],
            "domain": [domain for domain, _, _ in kept],
            "concept_id": pd.array(
                [code if _is_concept(domain) else None for domain, code, _ in kept], dtype="Int64"
            ),
            "people": np.array([people for _, _, people in kept], dtype=np.int64),
        }
    )
    design = Design.from_entries(_batches(work), n, list(columns["name"]))
    return Covariates(design, columns, _dropped(work), int(columns["people"].sum()))


def _collect(db: OmopDatabase, work: Workspace, rules: CovariateRules, excluded: list[int]) -> None:
    """Create the temporary table ``entries``: distinct (row_id, position in ``ORDER``, code)."""
    person = db.table("person")
    work.run("CREATE TEMP TABLE entries (row_id INTEGER, domain TINYINT, code BIGINT)")
    work.run("CREATE TEMP TABLE excluded (concept_id BIGINT)")
    work.run(f"INSERT INTO excluded SELECT unnest({excluded}::BIGINT[])")
    # The table person should have one row per person; min() makes repeated rows harmless.
    work.run(f"""
    INSERT INTO entries
    WITH born AS (
        SELECT person_id, {db.birth_day()} AS born, min(gender_concept_id)::BIGINT AS sex
        FROM {person} GROUP BY 1),
    known AS (SELECT row_id, year(start) AS year, {age_sql("born", "start")} AS age, sex
              FROM cohort JOIN born USING (person_id))
    SELECT row_id, {ORDER.index("age")}, age // 5 * 5 FROM known WHERE age >= 0
    UNION ALL SELECT row_id, {ORDER.index("sex")}, sex FROM known WHERE sex <> 0
    UNION ALL SELECT row_id, {ORDER.index("index year")}, year FROM known
    """)
    for domain, (table, concept, first, last) in DOMAINS.items():
        if table not in db.tables:
            continue
        end = last_day(f"e.{first}", f"e.{last}") if last else f"e.{first}::DATE"
        work.run(f"""
        INSERT INTO entries
        SELECT DISTINCT c.row_id, {ORDER.index(domain)}, e.{concept}::BIGINT
        FROM cohort c JOIN {db.table(table)} e ON e.person_id = c.person_id
        WHERE e.{first}::DATE <= c.start
          AND {end} >= c.start - {int(rules.window_days)}
          AND e.{concept} <> 0
          AND e.{concept}::BIGINT NOT IN (SELECT concept_id FROM excluded)
        """)


def _batches(work: Workspace) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the entries of the design as (rows, columns), sorted by column and then row."""
    for batch in work.stream(
        "SELECT row_id, column_id FROM entries JOIN kept USING (domain, code) "
        "ORDER BY column_id, row_id"
    ):
        yield batch.column(0).to_numpy(), batch.column(1).to_numpy()


def _dropped(work: Workspace) -> pd.DataFrame:
    """Count the kept, rare and redundant columns of each domain."""
    counts = work.rows("""
        SELECT domain, count(*) FILTER (fate = 'kept'), count(*) FILTER (fate = 'rare'),
               count(*) FILTER (fate = 'redundant')
        FROM columns GROUP BY domain ORDER BY domain
    """)
    table = pd.DataFrame(counts, columns=["domain", "kept", "rare", "redundant"])
    table["domain"] = [ORDER[i] for i in table["domain"]]
    return table


def _is_concept(domain: str) -> bool:
    """Check whether the codes of a domain are concept ids."""
    return domain not in ("age", "index year")


def _name(domain: str, code: int, names: dict[int, str]) -> str:
    """Name a column for display."""
    if domain == "age":
        return f"age: {code}-{code + 4}"
    if domain == "index year":
        return f"index year: {code}"
    if domain == "sex":
        name = names.get(code, UNNAMED)
        return f"sex: {code}" if name == UNNAMED else f"sex: {name}"
    return f"{domain}: {names.get(code, UNNAMED)} ({code})"
