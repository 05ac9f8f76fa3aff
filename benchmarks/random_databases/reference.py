"""The slow and obvious way: one person after the other, one record after the other.

Nothing here shares code with the library. Where the rules are described: docs/databases.md,
docs/cohorts.md and the docstrings of the functions that are compared.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from dataclasses import dataclass

from .draw import COMPARATOR, OUTCOME, TARGET, Database

__all__ = [
    "Person", "covariates_of", "day_of", "era_days", "family", "joined", "new_users",
    "observed_spans", "population", "sexes", "values_of",
]  # fmt: skip

DAY = dt.timedelta(days=1)
LOOK_BACK = dt.timedelta(days=99_999)  # R's default, which the check asks for
CHILDREN = {TARGET: 1011, OUTCOME: 2011}


def day_of(value: object) -> dt.date | None:
    """The calendar date of a stored value; instants are in UTC."""
    if isinstance(value, dt.datetime):
        return value.date()
    return value if isinstance(value, dt.date) else None


def family(db: Database, concept: int) -> set[int]:
    """A concept, with its descendants where the study asks for them."""
    return {concept, CHILDREN[concept]} if db.descendants and concept in CHILDREN else {concept}


def joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Unbroken runs of days (ordinals) of spans from a first to a last day, in order."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def observed_spans(db: Database) -> dict[int, list[tuple[int, int]]]:
    """Each person's unbroken observation: first and last days as ordinals, in order."""
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in db.tables["observation_period"]:
        start = day_of(row["observation_period_start_date"])
        end = day_of(row["observation_period_end_date"])
        if start is not None and end is not None and start <= end:
            spans[row["person_id"]].append((start.toordinal(), end.toordinal()))
    return {person: joined(of_person) for person, of_person in spans.items()}


def sexes(db: Database) -> dict[int, int]:
    """The sex of everybody in the table of people; of several rows the smallest value."""
    found: dict[int, int] = {}
    for row in db.tables["person"]:
        person, sex = row["person_id"], row["gender_concept_id"]
        found[person] = min(sex, found.get(person, sex))
    return found


def era_days(db: Database) -> list[tuple[int, int, int, int]]:
    """Person, drug, first and last day (as ordinals) of each drug era that has a start.

    An era without an end, or with one before its start, is one day. Concept 0 is no drug.
    """
    found = []
    for row in db.tables["drug_era"]:
        start, end = day_of(row["drug_era_start_date"]), day_of(row["drug_era_end_date"])
        if start is not None and row["drug_concept_id"] != 0:
            last = max(start, end or start)
            first = start.toordinal()
            found.append((row["person_id"], row["drug_concept_id"], first, last.toordinal()))
    return found


def period_around(
    spans: list[tuple[int, int]] | None, start: dt.date
) -> tuple[dt.date, dt.date] | None:
    """The first and last day of the unbroken observation that holds a day."""
    for first, last in spans or []:
        if first <= start.toordinal() <= last:
            return dt.date.fromordinal(first), dt.date.fromordinal(last)
    return None


def _later(day: dt.date, days: int) -> dt.date:
    """So many days later, where the calendar has them."""
    return dt.date.fromordinal(min(day.toordinal() + days, dt.date.max.toordinal()))


@dataclass
class Person:
    """A new user who fails no rule."""

    person_id: int
    treated: int
    start: dt.date
    time: int
    event: int


def new_users(db: Database, washout: int, risk_days: int | None) -> list[Person]:
    """Find the people of both arms who fail no rule."""
    observed, people = observed_spans(db), []
    known = {row["person_id"] for row in db.tables["person"]}
    for person in sorted(known & {row["person_id"] for row in db.tables["drug_era"]}):
        first: dict[int, dt.date] = {}
        for arm, concept in ((1, TARGET), (0, COMPARATOR)):
            starts = [
                day_of(row["drug_era_start_date"])
                for row in db.tables["drug_era"]
                if row["person_id"] == person and row["drug_concept_id"] in family(db, concept)
            ]
            known = [s for s in starts if s is not None]
            if known:
                first[arm] = min(known)
        outcomes = [
            day_of(row["condition_start_date"])
            for row in db.tables["condition_occurrence"]
            if row["person_id"] == person and row["condition_concept_id"] in family(db, OUTCOME)
        ]
        outcome = min((o for o in outcomes if o is not None), default=None)
        for arm, start in first.items():
            other = first.get(1 - arm)
            span = period_around(observed.get(person), start)
            end = None if span is None else span[1]
            if end is not None and risk_days is not None:
                end = min(end, _later(start, risk_days))
            if (
                (other is None or start < other)
                and span is not None
                and end is not None
                and (start - span[0]).days >= washout
                and (outcome is None or outcome > start)
                and end > start
            ):
                event = int(outcome is not None and outcome <= end)
                until = outcome if event and outcome is not None else end
                people.append(Person(person, arm, start, (until - start).days, event))
    return people


DOMAINS = {
    "condition_occurrence": ("condition", "condition_concept_id", "condition_start_date", None),
    "drug_era": ("drug", "drug_concept_id", "drug_era_start_date", "drug_era_end_date"),
    "procedure_occurrence": ("procedure", "procedure_concept_id", "procedure_date", None),
    "measurement": ("measurement", "measurement_concept_id", "measurement_date", None),
    "observation": ("observation", "observation_concept_id", "observation_date", None),
}


def covariates_of(
    db: Database, people: list[Person], window: int
) -> dict[tuple[str, int], set[int]]:
    """Who has each concept in the days before the start, by domain and concept."""
    # Covariates never hold the study drugs or what is below them.
    excluded = {TARGET, COMPARATOR}
    if db.descendants and "concept_ancestor" in db.tables:
        excluded.add(CHILDREN[TARGET])
    found: dict[tuple[str, int], set[int]] = defaultdict(set)
    for table, (domain, concept, first, last) in DOMAINS.items():
        for row in db.tables.get(table, []):
            start = day_of(row[first])
            if start is None or row[concept] == 0 or row[concept] in excluded:
                continue
            end = start if last is None else max(start, day_of(row[last]) or start)
            for person in people:
                same = person.person_id == row["person_id"]
                if same and start <= person.start and end >= person.start - window * DAY:
                    found[domain, int(row[concept])].add(person.person_id)
    return dict(found)


def usable_number(value: object) -> float | None:
    """A recorded value, unless it is missing, no finite number, or beyond single precision."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if abs(number) <= 3.4e38 else None


def values_of(
    db: Database, people: list[Person], window: int
) -> dict[tuple[int, int], dict[int, float]]:
    """By measurement and unit: each person's last value of the measurement before the start.

    Of several on one day the smallest counts, and of equal ones that of the smallest unit.
    """
    seen: dict[tuple[int, int], list[tuple[dt.date, float, int]]] = {}
    for row in db.tables.get("measurement", []):
        day, number = day_of(row["measurement_date"]), usable_number(row["value_as_number"])
        if day is None or number is None or row["measurement_concept_id"] == 0:
            continue
        record = (day, number, int(row["unit_concept_id"]))
        for person in people:
            same = person.person_id == row["person_id"]
            if same and person.start - window * DAY <= day <= person.start:
                key = (int(row["measurement_concept_id"]), person.person_id)
                seen.setdefault(key, []).append(record)
    found: dict[tuple[int, int], dict[int, float]] = {}
    for (concept, who), records in seen.items():
        _, value, unit = max(records, key=lambda x: (x[0], -x[1], -x[2]))
        if value != 0:
            found.setdefault((concept, unit), {})[who] = value
    return found


def joined_eras(db: Database, concept: int) -> list[tuple[int, dt.date, dt.date]]:
    """Eras of a drug, joined where they overlap or touch; eras without a start are left out."""
    days: dict[int, list[tuple[dt.date, dt.date]]] = defaultdict(list)
    for row in db.tables["drug_era"]:
        start, end = day_of(row["drug_era_start_date"]), day_of(row["drug_era_end_date"])
        if row["drug_concept_id"] in family(db, concept) and start is not None:
            days[row["person_id"]].append((start, max(start, end or start)))
    out = []
    for person, eras in sorted(days.items()):
        eras.sort()
        current = list(eras[0])
        for start, end in eras[1:]:
            if start <= current[1] + dt.timedelta(1):
                current[1] = max(current[1], end)
            else:
                out.append((person, current[0], current[1]))
                current = [start, end]
        out.append((person, current[0], current[1]))
    return out


def population(
    db: Database, washout: int, risk_end: int
) -> list[tuple[int, int, dt.date, int, int]]:
    """A comparison of drug eras by CohortMethod's rules: (person, arm, start, time, event).

    First era of each drug; who has both drugs keeps the one that came first; outcomes before the
    start in the same observation leave the person out if they lie within the look-back of
    99,999 days; at risk from the start for so many days.
    """
    observed, out = observed_spans(db), []
    known = {row["person_id"] for row in db.tables["person"]}
    first: dict[tuple[int, int], tuple[dt.date, dt.date]] = {}
    for arm, concept in ((1, TARGET), (0, COMPARATOR)):
        for person, start, end in joined_eras(db, concept):
            if person in known and (person, arm) not in first:
                first[person, arm] = (start, end)
    for (person, arm), (start, _) in sorted(first.items()):
        other = first.get((person, 1 - arm))
        if other is not None and other[0] <= start:
            continue
        span = period_around(observed.get(person), start)
        if span is None or (start - span[0]).days < washout:
            continue
        outcomes = {
            day_of(row["condition_start_date"])
            for row in db.tables["condition_occurrence"]
            if row["person_id"] == person and row["condition_concept_id"] in family(db, OUTCOME)
        }
        inside = sorted(o for o in outcomes if o is not None and span[0] <= o <= span[1])
        if any(DAY <= start - o <= LOOK_BACK for o in inside):
            continue
        end = min(_later(start, risk_end), span[1])
        events = [o for o in inside if start <= o <= end]
        time = ((events[0] if events else end) - start).days + 1
        out.append((person, arm, start, time, int(bool(events))))
    return out
