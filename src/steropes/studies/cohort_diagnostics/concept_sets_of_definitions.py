"""Concept sets of cohort definitions, and the concepts that they stand for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from steropes.studies.database.omop import OmopDatabase, RecordsOf, Workspace

__all__ = ["MEMBERS", "CohortDefinition", "DefinitionSet", "place_concept_sets"]

# The temporary table of concepts in sets: unique_set (a set of items), concept_id.
MEMBERS = "set_members"


@dataclass(frozen=True)
class CohortDefinition:
    """A cohort with the definition of its entry events.

    Attributes
    ----------
    id : int
        The cohort.
    name : str
        Its name.
    json_text : str
        Its definition; of a subset that of the cohort that it is a subset of.
    """

    id: int
    name: str
    json_text: str

    @property
    def expression(self) -> Mapping[str, Any]:
        """The definition without the name that surrounds it."""
        values = json.loads(self.json_text)
        return values.get("expression", values)

    @property
    def entry_events(self) -> list[tuple[str, int | None]]:
        """The kinds of the entry events with the concept sets that select them; None for all."""
        primary = self.expression.get("PrimaryCriteria")
        listed = primary.get("CriteriaList") if isinstance(primary, Mapping) else None
        found: list[tuple[str, int | None]] = []
        for criterion in listed if isinstance(listed, list) else ():
            for kind, settings in criterion.items() if isinstance(criterion, Mapping) else ():
                number = settings.get("CodesetId") if isinstance(settings, Mapping) else None
                found.append((kind, number if isinstance(number, int) else None))
        return found

    @property
    def concept_sets(self) -> list[tuple[int, str, Mapping[str, Any]]]:
        """The number, name and expression of each concept set."""
        listed = self.expression.get("ConceptSets")
        return [
            (
                each["id"],
                str(each.get("name") or f"concept set {each['id']}"),
                each["expression"] if isinstance(each.get("expression"), Mapping) else {},
            )
            for each in (listed if isinstance(listed, list) else ())
            if isinstance(each, Mapping) and isinstance(each.get("id"), int)
        ]


@dataclass(frozen=True)
class DefinitionSet:
    """A concept set of a cohort.

    Attributes
    ----------
    cohort, number : int
        The cohort, and the id of the set in its definition.
    name : str
        Its name.
    items : str
        Its expression as JSON text.
    unique : int
        A number that sets with the same items share.
    """

    cohort: int
    number: int
    name: str
    items: str
    unique: int


def place_concept_sets(
    db: OmopDatabase, work: Workspace, definitions: Iterable[CohortDefinition]
) -> list[DefinitionSet]:
    """Create the temporary table of the concepts in all sets, and return the sets.

    As in Circe, only concepts of the vocabulary count, descendants only if they are valid, and
    concepts that are mapped to one if the item includes them.
    """
    found: list[DefinitionSet] = []
    numbers: dict[str, int] = {}
    rows: list[tuple[int, int, bool, bool, bool]] = []
    for definition in definitions:
        for number, name, expression in definition.concept_sets:
            text = json.dumps(expression, ensure_ascii=False)
            if text not in numbers:
                numbers[text] = len(numbers)
                rows += [(numbers[text], *item) for item in _items(expression)]
            found.append(DefinitionSet(definition.id, number, name, text, numbers[text]))
    _place_members(db, work, rows)
    return found


def _items(expression: Mapping[str, Any]) -> Iterator[tuple[int, bool, bool, bool]]:
    """Yield the concepts of a set: excluded, with descendants, with mapped concepts."""
    for item in expression.get("items") or ():
        yield (
            int(item["concept"]["CONCEPT_ID"]),
            bool(item.get("isExcluded")),
            bool(item.get("includeDescendants")),
            bool(item.get("includeMapped")),
        )


def _place_members(
    db: OmopDatabase, work: Workspace, rows: Sequence[tuple[int, int, bool, bool, bool]]
) -> None:
    """Create the table of members from the items of sets."""
    items = pd.DataFrame(rows, columns=["unique_set", "item", "excluded", "below", "mapped"])
    items = items.astype({"unique_set": "int64", "item": "int64"})
    items = items.astype(dict.fromkeys(["excluded", "below", "mapped"], bool))
    work.connection.register("set_given", items)
    work.run("CREATE TEMP TABLE set_items AS SELECT * FROM set_given")
    work.connection.unregister("set_given")
    above = items["item"].tolist()
    base = "SELECT unique_set, excluded, mapped, item AS concept_id FROM set_items"
    concepts = above
    if "concept_ancestor" in db.tables:
        links = db.links("ancestor_concept_id", lambda: above)
        below = (
            "SELECT DISTINCT ancestor_concept_id AS above, descendant_concept_id AS lower "
            f"FROM {links} WHERE ancestor_concept_id IN (SELECT item FROM set_items WHERE below)"
        )
        work.run(f"CREATE TEMP TABLE set_links AS {below}")
        concepts = [*above, *(c for (c,) in work.rows("SELECT DISTINCT lower FROM set_links"))]
        base += (
            " UNION SELECT unique_set, excluded, mapped, lower FROM set_items "
            f"JOIN set_links ON above = item WHERE below AND lower IN ({_valid(db, concepts)})"
        )
    known = db.concepts(lambda: concepts)
    work.run(
        f"CREATE TEMP TABLE set_base AS SELECT * FROM ({base}) "
        f"WHERE concept_id IN (SELECT concept_id FROM {known})"
    )
    every = "SELECT unique_set, excluded, concept_id FROM set_base"
    if {"concept_id_1", "concept_id_2", "relationship_id"} <= {*db.columns("concept_relationship")}:
        every += f" UNION {_mapped(db, work)}"
    work.run(
        f"CREATE TEMP TABLE {MEMBERS} AS SELECT unique_set, concept_id::BIGINT AS concept_id "
        f"FROM ({every}) WHERE NOT excluded "
        f"EXCEPT SELECT unique_set, concept_id FROM ({every}) WHERE excluded"
    )


def _valid(db: OmopDatabase, concepts: Sequence[int]) -> str:
    """Return a SELECT of the concepts that are valid."""
    known = db.concepts(lambda: concepts)
    where = "WHERE invalid_reason IS NULL" if "invalid_reason" in db.columns("concept") else ""
    return f"SELECT concept_id FROM {known} {where}"


def _mapped(db: OmopDatabase, work: Workspace) -> str:
    """Return a SELECT of the concepts that are mapped to members of items that include them."""
    wanted = tuple(
        int(c) for (c,) in work.rows("SELECT DISTINCT concept_id FROM set_base WHERE mapped")
    )
    maps = db.records(RecordsOf("concept_relationship", "concept_id_2", wanted or (-1,)))
    valid = (
        " AND r.invalid_reason IS NULL"
        if "invalid_reason" in db.columns("concept_relationship")
        else ""
    )
    return (
        f"SELECT b.unique_set, b.excluded, r.concept_id_1 FROM set_base b JOIN {maps} r "
        f"ON r.concept_id_2 = b.concept_id WHERE b.mapped AND r.relationship_id = 'Maps to'{valid}"
    )
