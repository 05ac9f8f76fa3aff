"""Cohorts from an existing cohort table, drug eras or condition records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Days, Listed, OneOrMore, Whole, YesNo
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_table import COLUMNS, CohortTable, cohort_id
from steropes.studies.database.checked_concept_descendants import Descendants, recorded_tables
from steropes.studies.database.concept_domain_hints import domain_hint
from steropes.studies.database.data_quality_notes import DataNote, distinct
from steropes.studies.database.irregular_rows import irregular_eras, last_day
from steropes.studies.database.omop import OmopDatabase, RecordsOf
from steropes.studies.settings.concept_id_type import ConceptId

__all__ = ["ConceptSet", "Indication", "condition_cohorts", "drug_era_cohorts", "read_cohorts"]


ALONE = "list the descendants too in a ConceptSet with descendants=False (descendants = false)"


class ConceptSet(Settings):
    """A set of concepts, usually with all their descendants, minus excluded concepts.

    Parameters
    ----------
    include : tuple of int
        Concepts of the set.
    exclude : tuple of int
        Concept ids to leave out, with their descendants if ``descendants`` is set.
    descendants : bool, default True
        Also include the descendants of each concept in ``concept_ancestor``.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import ConceptSet
    >>> nsaids = ConceptSet((21603933,), exclude=(1124300,))
    >>> nsaids.resolve(synthetic_database(20))
    [1118084, 21603933]
    """

    include: OneOrMore[ConceptId]
    exclude: Listed[ConceptId] = ()
    descendants: YesNo = True

    def __post_init__(self) -> None:
        """Refuse a set without concepts."""
        if not self.include:
            raise DataError("a concept set must include a concept")
        if {*self.include} <= {*self.exclude}:
            raise DataError(
                f"the concept set of {list(self.include)} is empty: all concepts are excluded"
            )

    def resolve(self, db: OmopDatabase) -> list[int]:
        """Find the concepts of the set.

        Parameters
        ----------
        db : OmopDatabase
            The database whose vocabulary is used.

        Returns
        -------
        list of int
            Concept ids, ascending.

        Raises
        ------
        DataError
            A concept is not in the vocabulary, the vocabulary has no links to find descendants, or
            all concepts are excluded.
        """
        return self.members(Descendants(db), recorded_tables(db), "the concept set")

    def members(self, family: Descendants, tables: Collection[str], purpose: str) -> list[int]:
        """Find the concepts of the set that occur in the records of some tables.

        Parameters
        ----------
        family : Descendants
            Finds descendants, and collects notes on missing links.
        tables : collection of str
            Tables of records.
        purpose : str
            The use of the set, as the subject of messages.

        Returns
        -------
        list of int
            Concept ids, ascending.

        Raises
        ------
        DataError
            A concept is not in the vocabulary, or all concepts are excluded.
        """
        for concept in (*self.include, *self.exclude):
            family.db.concept_name(concept)

        def expand(listed: tuple[int, ...]) -> set[int]:
            if not (self.descendants and listed):
                return {*listed}
            return {*family.members(listed, tables, purpose, ALONE)}

        found = expand(self.include) - expand(self.exclude)
        if not found:
            raise DataError(
                f"the concept set of {list(self.include)} is empty: all concepts are excluded"
            )
        return sorted(found)


class Indication(ConceptSet):
    """A condition for which people are treated, as a cohort that starts with each of its records.

    Parameters
    ----------
    include : tuple of int
        Concepts of the set.
    exclude : tuple of int
        Concept ids to leave out, with their descendants if ``descendants`` is set.
    descendants : bool, default True
        Also include the descendants of each concept in ``concept_ancestor``.
    days : int, optional
        Days after a record during which it counts. Default: from the record on, without end.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import Indication, condition_cohorts
    >>> db = synthetic_database(200)
    >>> cohorts = condition_cohorts(db, {5: Indication((320128,), days=365)})
    >>> str((cohorts.end - cohorts.start).max())
    '365 days'
    """

    days: Days | None = None


def read_cohorts(
    db: OmopDatabase,
    cohorts: Iterable[int] | None = None,
    *,
    table: str = "cohort",
    schema: str | None = None,
    names: Mapping[int, str] | None = None,
    allow_empty: bool = False,
) -> CohortTable:
    """Read entries of an existing cohort table.

    Parameters
    ----------
    db : OmopDatabase
        The database with the cohort table.
    cohorts : iterable of int, optional
        Ids of the cohorts to read. Default: all.
    table : str, default "cohort"
        Name of the table; its columns are ``cohort_definition_id``, ``subject_id``,
        ``cohort_start_date`` and ``cohort_end_date``.
    schema : str, optional
        Schema of the table. Default: that of the CDM tables.
    names : mapping of int to str, optional
        Names of the cohorts.
    allow_empty : bool, default False
        Allow requested cohorts to have no entries.

    Returns
    -------
    CohortTable
        The entries.

    Raises
    ------
    DataError
        The table is missing or lacks columns or dates, or a cohort has no entries.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import read_cohorts
    >>> cohorts = read_cohorts(synthetic_database(200), names={1: "celecoxib", 2: "diclofenac"})
    >>> cohorts.ids, cohorts.name(2)
    ((1, 2), 'diclofenac')
    """
    wanted = None if cohorts is None else sorted({cohort_id(c) for c in cohorts})
    if wanted == []:
        raise DataError("no cohort requested: give at least one id, or leave cohorts out")
    where = f"{db.schema if schema is None else schema}.{table}"
    columns = db.columns(table, schema)
    if not columns:
        raise DataError(f"there is no table {where} in {db.name}")
    gone = [c for c in COLUMNS if c not in columns]
    if gone:
        raise DataError(f"{where} is not a cohort table: it lacks the columns {', '.join(gone)}")
    found = _entries(db, wanted, table, schema)
    absent = [c for c in wanted or () if c not in found.ids]
    if absent and not allow_empty:
        raise DataError(f"{where} has no entries of cohort {absent[0]}")
    return _named(found, names or {})


def drug_era_cohorts(
    db: OmopDatabase,
    drugs: Mapping[int, ConceptSet | int],
    *,
    gap: int = 0,
    names: Mapping[int, str] | None = None,
) -> CohortTable:
    """Build cohorts of drug eras, with one entry per era from its first to its last day.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    drugs : mapping of int to ConceptSet or int
        Concepts by cohort id. A single concept includes its descendants.
    gap : int, default 0
        Eras of a person in one cohort are joined if the next begins at most this many days after
        the last day of the previous one. With 0 as with 1, eras that overlap or touch are joined,
        as the observation periods and the eras of case series are: those of a class of drugs go on
        if a person switches from one drug to another on the next day.
    names : mapping of int to str, optional
        Names of the cohorts. Default: the name of the first concept.

    Returns
    -------
    CohortTable
        The entries.

    Raises
    ------
    DataError
        A concept does not exist or is of another domain and in no one's records, or the vocabulary
        has no links to find descendants.

    Notes
    -----
    An era without an end, or with an end before its start, is one day, its first; the ``notes`` of
    the cohorts count the latter.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import drug_era_cohorts
    >>> cohorts = drug_era_cohorts(synthetic_database(200), {1: 1118084, 2: 1124300})
    >>> cohorts.names
    {1: 'celecoxib', 2: 'diclofenac'}
    >>> cohorts.counts()["people"].sum().item()
    200
    """
    Whole(0).require("gap", gap)
    return _from_records(db, drugs, "drug_era", "drug_era", gap, names)


def condition_cohorts(
    db: OmopDatabase,
    conditions: Mapping[int, ConceptSet | int],
    *,
    table: str = "condition_occurrence",
    names: Mapping[int, str] | None = None,
) -> CohortTable:
    """Build cohorts of condition records, with one entry per day on which a record begins.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    conditions : mapping of int to ConceptSet or int
        Concepts by cohort id. A single concept includes its descendants. The entries of an
        `Indication` last as long as its records count.
    table : str, default "condition_occurrence"
        Table of the records, or "condition_era". An entry of an occurrence is its first day; of an
        era, all its days.
    names : mapping of int to str, optional
        Names of the cohorts. Default: the name of the first concept.

    Returns
    -------
    CohortTable
        The entries.

    Raises
    ------
    DataError
        A concept or table does not exist, or a concept is of another domain and in no one's
        records.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import condition_cohorts
    >>> cohorts = condition_cohorts(synthetic_database(200), {3: 192671})
    >>> cohorts.name(3)
    'Gastrointestinal hemorrhage'
    """
    if table not in ("condition_occurrence", "condition_era"):
        raise DataError(f'table must be "condition_occurrence" or "condition_era", not {table!r}')
    return _from_records(db, conditions, table, "condition", None, names)


def _entries(
    db: OmopDatabase, wanted: Iterable[int] | None, table: str, schema: str | None
) -> CohortTable:
    """Read the entries of some or all cohorts of a cohort table."""
    if wanted is None:
        source = db.table(table, schema)
    else:
        source = db.records(cohort_records(wanted, table, schema))
    ids = ", ".join(f"{name}::BIGINT AS {name}" for name in COLUMNS[:2])
    with db.workspace() as work:
        frame = work.frame(f"SELECT {ids}, {', '.join(COLUMNS[2:])} FROM {source} AS entries")
    return CohortTable.from_frame(frame, db.identity)


def cohort_records(wanted: Iterable[int], table: str, schema: str | None) -> RecordsOf:
    """Select the entries of some cohorts in a cohort table."""
    return RecordsOf(table, COLUMNS[0], tuple(sorted({*wanted})), COLUMNS[1], schema)


def _from_records(
    db: OmopDatabase,
    wanted: Mapping[int, ConceptSet | int],
    table: str,
    prefix: str,
    gap: int | None,
    names: Mapping[int, str] | None,
) -> CohortTable:
    """Build cohorts from the records of one table."""
    if not wanted:
        raise DataError("no cohort requested: give an id and its concepts")
    sets = {
        cohort_id(cohort): s if isinstance(s, ConceptSet) else ConceptSet((s,))
        for cohort, s in wanted.items()
    }
    concept = "drug_concept_id" if prefix == "drug_era" else "condition_concept_id"
    dates = {
        "drug_era": ("drug_era_start_date", "drug_era_end_date"),
        "condition_occurrence": ("condition_start_date", "condition_start_date"),
        "condition_era": ("condition_era_start_date", "condition_era_end_date"),
    }
    first, last = dates[table]
    have = db.columns(table)
    gone = [c for c in ("person_id", concept, first, last) if c not in have]
    if gone:
        raise DataError(f"{db.name}: table {table} lacks the columns {', '.join(gone)}")
    parts = []
    notes: list[DataNote] = []
    family = Descendants(db, (c for s in sets.values() for c in (*s.include, *s.exclude)))
    for cohort, concept_set in sets.items():
        members = concept_set.members(family, [table], f"cohort {cohort}")
        source = db.records(RecordsOf(table, concept, tuple(members)))
        parts.append(
            f"SELECT DISTINCT {cohort}::BIGINT AS cohort_definition_id, "
            f"person_id::BIGINT AS subject_id, {first} AS cohort_start_date, "
            f"{_last(concept_set, first, last)} AS cohort_end_date "
            f"FROM {source} AS records WHERE {first} IS NOT NULL"
        )
        with db.workspace() as work:
            notes += irregular_eras(work, source, f"{table}, cohort {cohort},", (first, last))
    with db.workspace() as work:
        frame = work.frame(" UNION ALL ".join(parts) if gap is None else _joined(parts, gap))
    found = CohortTable.from_frame(frame, db.identity)
    default = {cohort: db.concept_name(s.include[0]) for cohort, s in sets.items()}
    for cohort in {*sets} - {*found.ids}:
        hints = [domain_hint(db, c, table) for c in sets[cohort].include]
        if all(hints):  # A cohort of records in the right domain may be empty.
            named = f"{sets[cohort].include[0]} ({default[cohort]})"
            raise DataError(f"cohort {cohort}: nobody has a record of {named}{hints[0]}")
    found = replace(found, notes=distinct((*family.notes, *notes)))
    return _named(found, {**default, **(names or {})})


def _last(concept_set: ConceptSet, first: str, last: str) -> str:
    """Return SQL of an entry's last day: the end of its record or of an indication."""
    if not isinstance(concept_set, Indication):
        return last_day(first, last)
    if concept_set.days is None:
        return "DATE '9999-12-31'"
    return f"({first}::DATE + {int(concept_set.days)})"


def _joined(parts: list[str], gap: int) -> str:
    """Return SQL that joins eras at most ``gap`` days apart, and those that touch."""
    return f"""
    WITH eras AS ({" UNION ALL ".join(parts)}),
    breaks AS (
        SELECT *, coalesce(cohort_start_date > {max(int(gap), 1)} + max(cohort_end_date) OVER (
                      PARTITION BY cohort_definition_id, subject_id
                      ORDER BY cohort_start_date, cohort_end_date
                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), TRUE)::INTEGER AS new
        FROM eras),
    numbered AS (
        SELECT *, sum(new) OVER (
                      PARTITION BY cohort_definition_id, subject_id
                      ORDER BY cohort_start_date, cohort_end_date
                      ROWS UNBOUNDED PRECEDING) AS era
        FROM breaks)
    SELECT cohort_definition_id, subject_id, min(cohort_start_date) AS cohort_start_date,
           max(cohort_end_date) AS cohort_end_date
    FROM numbered GROUP BY cohort_definition_id, subject_id, era
    """


def _named(table: CohortTable, names: Mapping[int, str]) -> CohortTable:
    """Give the cohorts names."""
    return replace(table, names={cohort_id(i): str(name) for i, name in names.items()})
