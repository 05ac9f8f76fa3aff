"""Draw a small OMOP database with the irregularities that real ones have."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

import numpy as np

from .oddities import add_oddities, add_placeholder_ends

__all__ = ["COMPARATOR", "OUTCOME", "TARGET", "Database", "Row", "draw_database"]

TARGET, COMPARATOR, OUTCOME = 1001, 1002, 2001
TARGET_CHILD, OUTCOME_CHILD, OTHER_DRUG, OTHER_CONDITION = 1011, 2011, 1003, 2002
EPOCH = dt.date(2010, 1, 1)
Row = dict[str, object]


@dataclass
class Database:
    """Tables as rows of plain values, and how they are stored.

    Attributes
    ----------
    tables : dict
        Rows by table. Dates are `datetime.date`, or `datetime.datetime` in UTC.
    date_types : dict
        By table: "DATE", "TIMESTAMP" or "TIMESTAMPTZ".
    names : str
        How names are written: "lower", "capitals" or "mixed".
    views, extra_columns : bool
        Tables that are views; columns that CDM does not know.
    schema : str
    integers : str
        The type of ids and concepts: "BIGINT", "INTEGER" or "DECIMAL".
    decoy : bool
        Whether another schema holds the same tables with fewer rows.
    descendants : bool
        Whether the study asks for descendants.
    oddities : list of str
    """

    tables: dict[str, list[Row]]
    date_types: dict[str, str]
    names: str = "lower"
    views: bool = False
    extra_columns: bool = False
    schema: str = "main"
    integers: str = "BIGINT"
    decoy: bool = False
    descendants: bool = True
    oddities: list[str] = field(default_factory=list)


def draw_database(seed: int) -> Database:
    """Draw a database; the same seed draws the same one."""
    rng = np.random.default_rng(seed)
    oddities: list[str] = []

    def some(name: str, probability: float = 0.3) -> bool:
        if rng.random() < probability:
            oddities.append(name)
            return True
        return False

    n = int(rng.integers(6, 40))
    first_id = int(rng.choice([1, 1, 10**6, 2**53 + 1, 2**62]))
    if first_id > 2**53:
        oddities.append("large ids")
    ids = [first_id + int(k) for k in rng.permutation(n)]
    tables: dict[str, list[Row]] = {
        "person": _persons(rng, ids, some),
        "observation_period": _periods(rng, ids, some),
        "drug_era": _eras(rng, ids, some),
        "condition_occurrence": _conditions(rng, ids, some),
        "concept": _concepts(some),
    }
    descendants = bool(rng.random() < 0.6)
    if descendants or rng.random() < 0.5:
        tables["concept_ancestor"] = _links()
    if not some("missing optional tables", 0.3):
        tables["measurement"] = _domain(rng, ids, "measurement", 3001)
        tables["procedure_occurrence"] = _domain(rng, ids, "procedure", 4001)
        tables["observation"] = (
            [] if some("empty table") else _domain(rng, ids, "observation", 5001)
        )
    zoned = some("time zones")
    kinds = ["DATE", "TIMESTAMP", "TIMESTAMPTZ"] if zoned else ["DATE"]
    date_types = {table: str(rng.choice(kinds)) for table in tables}
    if zoned:
        for table, rows in tables.items():
            if date_types[table] != "DATE":
                tables[table] = [_timed(rng, row) for row in rows]
    for rows in tables.values():
        if rows and some("duplicated rows", 0.15):
            rows.append(dict(rows[int(rng.integers(len(rows)))]))
        order = rng.permutation(len(rows))
        rows[:] = [rows[int(k)] for k in order]
    db = Database(
        tables, date_types, "capitals" if some("capitals") else "lower", some("views"),
        some("extra columns"), "cdm_x" if some("another schema") else "main",
        descendants=descendants,
    )  # fmt: skip
    rng = np.random.default_rng([seed, 7])  # what follows leaves the draws before it as they were
    add_oddities(rng, tables, some)
    db.date_types |= {"death": "DATE"}
    if some("names in mixed case", 0.2):
        db.names = "mixed"
    kinds = ["BIGINT", "DECIMAL"] if first_id > 2**31 else ["BIGINT", "DECIMAL", "INTEGER"]
    db.integers, db.decoy = str(rng.choice(kinds)), some("the same tables elsewhere", 0.25)
    if db.integers != "BIGINT":
        oddities.append(f"ids of type {db.integers}")
    rng = np.random.default_rng([seed, 8])
    if some("placeholder ends", 0.2):
        add_placeholder_ends(rng, tables["observation_period"])
    db.oddities = sorted({*oddities})
    return db


def _day(rng: np.random.Generator, low: int, high: int) -> dt.date:
    return EPOCH + dt.timedelta(days=int(rng.integers(low, high)))


def _timed(rng: np.random.Generator, row: Row) -> Row:
    """Give the dates of a row a time of day."""
    out: Row = {}
    for name, value in row.items():
        if isinstance(value, dt.date):
            seconds = int(rng.choice([0, 1, 43200, 86399]))
            out[name] = dt.datetime.combine(value, dt.time()) + dt.timedelta(seconds=seconds)
        else:
            out[name] = value
    return out


def _persons(rng, ids, some) -> list[Row]:
    rows: list[Row] = []
    unborn, orphans = some("unknown births"), some("records of nobody known", 0.2)
    for k, person in enumerate(ids):
        if orphans and k < 2:
            continue
        whole = rng.random() < 0.6
        rows.append(
            {
                "person_id": person,
                "year_of_birth": int(rng.integers(1920, 2011)),
                "month_of_birth": int(rng.integers(1, 13)) if whole else None,
                "day_of_birth": int(rng.integers(1, 29)) if whole else None,
                "gender_concept_id": int(rng.choice([8507, 8532, 0])),
            }
        )
        if unborn and rng.random() < 0.2:
            rows[-1]["gender_concept_id"] = 0
    return rows


def _periods(rng, ids, some) -> list[Row]:
    rows: list[Row] = []
    overlap, gaps, touching = some("overlapping periods"), some("gaps"), some("touching periods")
    nulls, backwards = some("periods without a date", 0.2), some("reversed periods", 0.2)
    for person in ids:
        if rng.random() < 0.05:
            continue
        start = _day(rng, -900, 200)
        end = start + dt.timedelta(days=int(rng.integers(0, 1500)))
        spans: list[tuple[dt.date | None, dt.date | None]] = [(start, end)]
        if overlap and rng.random() < 0.5:
            middle = start + (end - start) * float(rng.random())
            spans.append((middle, middle + dt.timedelta(days=int(rng.integers(0, 900)))))
        if touching and rng.random() < 0.5:
            spans.append((end + dt.timedelta(days=1), end + dt.timedelta(days=300)))
        if gaps and rng.random() < 0.5:
            spans.append((end + dt.timedelta(days=40), end + dt.timedelta(days=400)))
        if nulls and rng.random() < 0.2:
            spans.append((start, None) if rng.random() < 0.5 else (None, end))
        if backwards and rng.random() < 0.2:
            spans.append((end, start - dt.timedelta(days=1)))
        rows += [
            {
                "person_id": person,
                "observation_period_start_date": a,
                "observation_period_end_date": b,
            }
            for a, b in spans
        ]
    return rows


def _eras(rng, ids, some) -> list[Row]:
    rows: list[Row] = []
    nulls, same_day = some("eras without a start", 0.2), some("everything on one day", 0.1)
    fixed = _day(rng, 0, 300)
    for person in ids:
        for _ in range(int(rng.integers(0, 4))):
            start = fixed if same_day else _day(rng, -300, 900)
            drug = int(rng.choice([TARGET, COMPARATOR, TARGET_CHILD, OTHER_DRUG, 0]))
            end = start + dt.timedelta(days=int(rng.integers(0, 120)))
            rows.append(
                {
                    "person_id": person,
                    "drug_concept_id": drug,
                    "drug_era_start_date": None if nulls and rng.random() < 0.1 else start,
                    "drug_era_end_date": end,
                }
            )
    return rows


def _conditions(rng, ids, some) -> list[Row]:
    rows: list[Row] = []
    outside, nulls = some("events outside observation"), some("events without a date", 0.2)
    for person in ids:
        for _ in range(int(rng.integers(0, 4))):
            start = _day(rng, -3000, 3000) if outside else _day(rng, -300, 1200)
            rows.append(
                {
                    "person_id": person,
                    "condition_concept_id": int(
                        rng.choice([OUTCOME, OUTCOME_CHILD, OTHER_CONDITION, 0])
                    ),
                    "condition_start_date": None if nulls and rng.random() < 0.1 else start,
                    "condition_end_date": None,
                }
            )
    return rows


def _domain(rng, ids, kind: str, concept: int) -> list[Row]:
    return [
        {
            "person_id": person,
            f"{kind}_concept_id": int(rng.choice([concept, concept + 1, 0])),
            f"{kind}_date": _day(rng, -400, 900),
        }
        for person in ids
        if rng.random() < 0.6
    ]


def _concepts(some) -> list[Row]:
    nameless = some("concepts without a name")
    known = [
        (TARGET, "Targetin", "Drug"), (COMPARATOR, "Comparin", "Drug"),
        (TARGET_CHILD, "Targetin child", "Drug"), (OTHER_DRUG, "Otherin", "Drug"),
        (OUTCOME, "Outcome", "Condition"), (OUTCOME_CHILD, "Outcome child", "Condition"),
        (OTHER_CONDITION, "Other condition", "Condition"), (8507, "MALE", "Gender"),
        (8532, "FEMALE", "Gender"),
    ]  # fmt: skip
    return [
        {
            "concept_id": i,
            "concept_name": None if nameless and i in (TARGET_CHILD, OTHER_CONDITION) else name,
            "domain_id": domain,
            "vocabulary_id": "Test",
        }
        for i, name, domain in known
    ]


def _links() -> list[Row]:
    own = [TARGET, COMPARATOR, TARGET_CHILD, OTHER_DRUG, OUTCOME, OUTCOME_CHILD, OTHER_CONDITION]
    pairs = [(i, i) for i in own] + [(TARGET, TARGET_CHILD), (OUTCOME, OUTCOME_CHILD)]
    return [{"ancestor_concept_id": a, "descendant_concept_id": d} for a, d in pairs]
