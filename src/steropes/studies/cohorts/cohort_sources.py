"""Sources of a grid's cohorts: cohort tables, drug eras, condition records, ATLAS definitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, TypeVar

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import ById, Count
from steropes.designs.settings.value_checks import Before
from steropes.errors import DataError
from steropes.studies.cohorts.circe_cohort_definitions import (
    circe_cohorts,
    definition_text,
    entry_records,
)
from steropes.studies.cohorts.cohort_builders import (
    ConceptSet,
    Indication,
    cohort_records,
    condition_cohorts,
    drug_era_cohorts,
    read_cohorts,
)
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.checked_concept_descendants import Descendants
from steropes.studies.database.omop import OmopDatabase, RecordsOf
from steropes.studies.settings.settings_reader import Source

__all__ = ["CohortSources", "MadeCohorts", "file_names", "with_texts"]

Id = TypeVar("Id")
Maker = Callable[[list[int]], CohortTable]


@dataclass(frozen=True, repr=False, eq=False)
class MadeCohorts:
    """Cohorts that could be built, and the reasons for the others.

    Attributes
    ----------
    table : CohortTable or None
        None if none could be built.
    refused : dict of int to str
        By id: a concept that does not exist, a definition that cannot be translated or run, an id
        that is defined nowhere, dates that cannot be.
    """

    table: CohortTable | None
    refused: dict[int, str]

    def require_all(self) -> CohortTable:
        """Return the cohorts if all could be built.

        Returns
        -------
        CohortTable
            The cohorts.

        Raises
        ------
        DataError
            A cohort could not be built; the message has the reasons.
        """
        if self.refused or self.table is None:
            raise DataError("; ".join(self.refused.values()) or "there are no cohorts")
        return self.table

    def renumbered(self, numbers: Mapping[int, int]) -> MadeCohorts:
        """Give the cohorts other ids.

        Parameters
        ----------
        numbers : mapping of int to int
            The new id of each cohort.

        Returns
        -------
        MadeCohorts
            The same entries and reasons under the new ids.
        """
        refused = {numbers[cohort]: why for cohort, why in self.refused.items()}
        table = None if self.table is None else self.table.renumbered(numbers)
        return MadeCohorts(table, refused)


# A definition as JSON; a file is read when the settings are created.
Definition = Annotated[str, Before(definition_text)]


class CohortSources(Settings):
    """Sources of the cohorts of a grid; each cohort comes from one of them.

    Parameters
    ----------
    table : str
        Name of an existing cohort table; "" for none.
    schema : str
        Schema of the cohort table. Default: that of the CDM tables.
    drugs : dict of int to ConceptSet
        Cohorts of drug eras, by id.
    conditions : dict of int to ConceptSet
        Cohorts of condition records, by id.
    definitions : dict of int to str
        Cohort definitions from ATLAS (`circe_cohorts`), by id: a JSON file, or its text. Files are
        read once, when the settings are created.
    names : dict of int to str
        Names of cohorts, by id, for reports. In files and commands the default of a cohort with a
        definition is the name of its file.
    indications : dict of int to Indication
        Nesting cohorts of conditions, by id: people are in them from each record on.

    Examples
    --------
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> sources = CohortSources(
    ...     drugs={1: ConceptSet((1118084,)), 2: ConceptSet((1124300,))},
    ...     conditions={3: ConceptSet((192671,))},
    ... )
    >>> sorted({*sources.drugs, *sources.conditions})
    [1, 2, 3]
    """

    table: str = ""
    schema: str = ""
    drugs: ById[Count, ConceptSet] = field(default_factory=dict)
    conditions: ById[Count, ConceptSet] = field(default_factory=dict)
    definitions: ById[Count, Definition] = field(default_factory=dict)
    names: ById[Count, str] = field(default_factory=dict)
    indications: ById[Count, Indication] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse cohorts that are defined twice, and sources without cohorts."""
        listed = [*self.drugs, *self.conditions, *self.definitions, *self.indications]
        both = {i for i in listed if listed.count(i) > 1}
        if both:
            raise DataError(f"cohort {min(both)} is defined twice")
        if not (self.table or listed):
            raise DataError(
                "name a cohort table, or define cohorts of drugs, conditions or definitions"
            )

    @property
    def defined(self) -> set[int]:
        """Ids of the cohorts that are not in a cohort table."""
        return {*self.drugs, *self.conditions, *self.definitions, *self.indications}

    def make(self, db: OmopDatabase, wanted: set[int]) -> MadeCohorts:
        """Build some of the cohorts; those that fail are left out, with the reason.

        Parameters
        ----------
        db : OmopDatabase
            The database.
        wanted : set of int
            Ids of the cohorts.

        Returns
        -------
        MadeCohorts
            The cohorts, and the reasons why some cannot be built.
        """
        parts: list[CohortTable] = []
        refused: dict[int, str] = {}
        left = set(wanted)
        for known, make in self._ways(db):
            own = sorted(left & known if known is not None else left)
            left -= {*own}
            parts += _attempted(own, make, refused)
        refused |= {c: f"cohort {c} is not defined" for c in left}
        if not parts:
            return MadeCohorts(None, refused)
        made = parts[0]
        for part in parts[1:]:
            made = made + part
        names = {**(made.names or {}), **self.names}
        return MadeCohorts(replace(made, names=names), refused)

    def _ways(self, db: OmopDatabase) -> Iterator[tuple[set[int] | None, Maker]]:
        """Yield the ids of each source and the function that builds them; None: all others."""
        yield {*self.drugs}, lambda ids: drug_era_cohorts(db, {i: self.drugs[i] for i in ids})
        yield (
            {*self.conditions},
            lambda ids: condition_cohorts(db, {i: self.conditions[i] for i in ids}),
        )
        yield (
            {*self.indications},
            lambda ids: condition_cohorts(db, {i: self.indications[i] for i in ids}),
        )
        yield (
            {*self.definitions},
            lambda ids: circe_cohorts(db, {i: self.definitions[i] for i in ids}),
        )
        if self.table:
            schema = self.schema or None
            yield (
                None,
                lambda ids: read_cohorts(
                    db, ids, table=self.table, schema=schema, allow_empty=True
                ),
            )

    def compared(self, db: OmopDatabase, cohorts: set[int]) -> OmopDatabase:
        """Narrow the database to people who may belong to one of some cohorts.

        Parameters
        ----------
        db : OmopDatabase
            The database.
        cohorts : set of int
            Ids of the cohorts.

        Returns
        -------
        OmopDatabase
            The restricted database; the same if the people are not known in advance.
        """
        people = self._people(db, cohorts)
        return db if people is None else db.narrowed(people)

    def _people(self, db: OmopDatabase, cohorts: set[int]) -> list[RecordsOf] | None:
        """Find records such that all members of some cohorts have one; None if unknown."""
        found = []
        for table, concept, sets in (
            ("drug_era", "drug_concept_id", self.drugs),
            (
                "condition_occurrence",
                "condition_concept_id",
                {**self.conditions, **self.indications},
            ),
        ):
            # the making of the cohorts has noted what their concepts lack
            family = Descendants(db)
            named = ((f"cohort {i}", sets[i]) for i in cohorts & {*sets})
            members = sorted({c for name, s in named for c in s.members(family, [table], name)})
            if members:
                found.append(RecordsOf(table, concept, tuple(members)))
        for cohort in sorted(cohorts & {*self.definitions}):
            entries = entry_records(db, self.definitions[cohort])
            if entries is None:
                return None
            found += entries
        others = cohorts - self.defined
        if others:
            found.append(cohort_records(others, self.table, self.schema or None))
        return found


def _attempted(ids: list[int], make: Maker, refused: dict[int, str]) -> list[CohortTable]:
    """Build cohorts together, or one by one if an error occurs, to find those that fail."""
    if not ids:
        return []
    try:
        return [make(ids)]
    except DataError as error:
        if len(ids) == 1:
            said = str(error)
            named = re.search(rf"\bcohort {ids[0]}\b", said)
            refused[ids[0]] = said if named else f"cohort {ids[0]}: {said}"
            return []
    return [part for one in ids for part in _attempted([one], make, refused)]


def with_texts(cohorts: object, folder: Path, source: Source) -> object:
    """Replace the names of definition files in the values of `CohortSources` by their contents.

    Raises
    ------
    DataError
        A file that cannot be read, with the line of the specification that names it.
    """
    definitions = cohorts.get("definitions") if isinstance(cohorts, Mapping) else None
    if not isinstance(cohorts, Mapping) or not isinstance(definitions, Mapping):
        return cohorts
    texts = {}
    for i, d in definitions.items():
        try:
            texts[i] = definition_text(d, folder, confined=True) if isinstance(d, str) else d
        except DataError as error:
            raise DataError(f"{source.where(('cohorts', 'definitions', i))}: {error}") from None
    names = cohorts.get("names", {})
    if isinstance(names, Mapping):
        names = {**file_names(definitions), **names}
    return {**cohorts, "definitions": texts, "names": names}


def file_names(definitions: Mapping[Id, object]) -> dict[Id, str]:
    """Name cohorts after the files of their definitions, except files that are numbers."""
    named = {
        i: Path(d).stem.replace("_", " ")
        for i, d in definitions.items()
        if isinstance(d, str) and not d.lstrip().startswith("{")
    }
    return {i: name for i, name in named.items() if not name.strip().isdigit()}
