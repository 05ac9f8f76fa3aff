"""Pathways of events of the people in target cohorts, counted as TreatmentPatterns counts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.irregular_rows import distinct_people, leave_out_unknown_people
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.strategus.pathway_event_eras import (
    EventCodes,
    changed_eras,
    collapsed_eras,
    combined_eras,
)
from steropes.studies.strategus_plans.pathway_plan import PathwayPlan

__all__ = ["TargetPathways", "target_pathways"]

ENTRIES = "pathway_entries"
QUARTILES = {"duration_q_1": 0.25, "duration_median": 0.5, "duration_q_2": 0.75}
OVERALL = "overall"


@dataclass(frozen=True)
class TargetPathways:
    """The pathways of one target, with exact counts, which are not for release.

    Attributes
    ----------
    target : int
        The target cohort.
    name : str
        Its name.
    paths : DataFrame
        ``pathway``, its ``events``, the number of pathways ``freq`` and of ``people`` who have it.
    durations : DataFrame
        Days of the eras by ``event_name`` and ``line``, with the number of ``people`` and the
        ``kind`` of the event, which is missing for all events of one kind.
    people : DataFrame
        The number ``n`` of people by ``kind`` ("age", "sex" or "index_year") and ``value``.
    attrition : DataFrame
        Numbers of records and subjects after each step.
    """

    target: int
    name: str
    paths: pd.DataFrame
    durations: pd.DataFrame
    people: pd.DataFrame
    attrition: pd.DataFrame


def target_pathways(
    db: OmopDatabase, plan: PathwayPlan, cohorts: CohortTable
) -> list[TargetPathways]:
    """Count the pathways of all targets.

    Parameters
    ----------
    plan : PathwayPlan
        The plan, with cohorts that all could be made.
    cohorts : CohortTable
        The generated cohorts.
    """
    ids = [c.cohort_id for c in plan.cohorts]
    with db.workspace() as work:
        cohorts.only(ids).place(work, ENTRIES)
        leave_out_unknown_people(db, work, ENTRIES)
        [every] = work.rows(f"SELECT count(*), count(DISTINCT subject_id) FROM {ENTRIES}")
        [long] = work.rows(
            f"SELECT count(*), count(DISTINCT subject_id) FROM {ENTRIES} "
            f"WHERE {_long(plan)} AND subject_id IN (SELECT subject_id FROM {ENTRIES} WHERE "
            f"cohort_definition_id IN ({', '.join(map(str, sorted(plan.targets)))}) "
            f"AND {_long(plan)})"
        )
        named = ", ".join(map(str, sorted(ids)))
        steps = [
            (1, f"Qualifying records for cohort definitions: {named}", *every),
            (2, f"Removing records < minEraDuration ({plan.shortest_entry})", *long),
        ]
        sexes = db.concept_names(
            int(g) for (g,) in work.rows(f"SELECT DISTINCT sex FROM ({_people(db)})") if g
        )
        found = []
        for target, name in plan.of_type("target").items():
            events = work.frame(_sql(db, plan, target))
            events["sex"] = events["sex"].map(sexes)
            found.append(_of_target(plan, target, name, events, steps))
    return found


def _long(plan: PathwayPlan) -> str:
    """Return SQL of whether an entry is long enough."""
    return f"cohort_end_date - cohort_start_date >= {plan.shortest_entry}"


def _people(db: OmopDatabase) -> str:
    """Return SQL of the people with the year of birth and the concept of the sex."""
    sex = "gender_concept_id" if "gender_concept_id" in db.columns("person") else "NULL"
    people = distinct_people(db, f"SELECT subject_id FROM {ENTRIES}")
    return f"SELECT person_id, year_of_birth AS born, {sex} AS sex FROM {people}"


def _sql(db: OmopDatabase, plan: PathwayPlan, target: int) -> str:
    """Return SQL of the entries of events and exits in the windows of a target.

    Days are numbers from 1970. The number of a target entry is 1 if entries are concatenated.
    """
    window = plan.window
    others = ", ".join(str(c.cohort_id) for c in plan.cohorts if c.type != "target")
    number = "1" if plan.concatenate else (
        "row_number() OVER (PARTITION BY subject_id ORDER BY cohort_start_date)"
    )  # fmt: skip
    inside = {
        "start": "e.first BETWEEN t.opens AND t.closes",
        "both": "e.first >= t.opens AND e.last <= t.closes",
        "end": "e.last BETWEEN t.opens AND t.closes",
    }[window.of_event]
    first = "greatest(e.first, t.opens)" if window.of_event == "end" else "e.first"
    return f"""
    WITH entries AS (
        SELECT cohort_definition_id AS cohort, subject_id AS person,
            cohort_start_date AS first, cohort_end_date AS last
        FROM {ENTRIES} WHERE {_long(plan)}),
    targets AS (
        SELECT subject_id AS person, {number} AS number,
            cohort_{_date(window.start)}_date + {window.start_offset}::INTEGER AS opens,
            cohort_{_date(window.end)}_date + {window.end_offset}::INTEGER AS closes
        FROM {ENTRIES} WHERE cohort_definition_id = {target} AND {_long(plan)})
    SELECT e.person, t.number, e.cohort, ({first} - DATE '1970-01-01')::BIGINT AS start,
        (e.last - DATE '1970-01-01')::BIGINT AS end, (e.last - e.first)::BIGINT AS length,
        min(year(t.opens)) AS index_year, min(year({first}) - p.born) AS age, min(p.sex) AS sex
    FROM entries e JOIN targets t ON t.person = e.person AND {inside}
    JOIN ({_people(db)}) p ON p.person_id = e.person
    WHERE e.cohort IN ({others})
    GROUP BY e.person, t.number, e.cohort, {first}, e.first, e.last
    ORDER BY e.person, t.number, start, e.last, e.cohort"""


def _date(anchor: str) -> str:
    """Return the part of a column's name for an anchor."""
    return "start" if anchor == "first" else "end"


def _of_target(
    plan: PathwayPlan, target: int, name: str, events: pd.DataFrame, steps: list[Any]
) -> TargetPathways:
    """Make the pathways of one target."""
    steps = [*steps]
    keys = ["person", "number"]
    persons = events[keys].drop_duplicates().reset_index(drop=True)
    events = events.merge(persons.assign(group=persons.index), on=keys)
    codes, events = _coded(plan, events)
    exits = events[events["cohort"].isin([*plan.of_type("exit")])]
    eras = events.drop(index=exits.index)[["group", "event", "start", "end"]]

    def note(number: int, reason: str, of: pd.DataFrame) -> None:
        """Count the records and people that are left."""
        subjects = persons["person"].to_numpy()[of["group"].to_numpy()]
        steps.append((number, reason, len(of), len(np.unique(subjects))))

    note(3, f"Removing events outside window ({_window_text(plan)})", events)
    note(4, "splitEventCohorts", eras)
    eras = collapsed_eras(eras, plan.longest_gap)
    note(5, f"Collapsing eras, eraCollapse ({plan.longest_gap})", eras)
    eras = combined_eras(eras, codes, plan)
    note(7, "After Combination", eras)
    eras = changed_eras(eras, plan.kept)
    note(8, f"filterTreatments ({plan.kept})", eras)
    ends = exits[["group", "event", "start", "end"]].assign(days=exits["end"] - exits["start"])
    eras = pd.concat([eras, ends], ignore_index=True)
    eras = eras.sort_values(["group", "start", "end", "event"], kind="stable")
    eras["line"] = eras.groupby("group", sort=False).cumcount() + 1
    eras = eras[eras["line"] <= plan.longest_path].reset_index(drop=True)
    note(10, f"Max path length ({plan.longest_path})", eras)
    eras["person"] = persons["person"].to_numpy()[eras["group"].to_numpy()]
    labels = np.asarray(codes.labels(), dtype=object)
    eras["event_name"] = labels[eras["event"].to_numpy()] if len(eras) else ""
    several = np.asarray([len(of) > 1 for of in codes.members])
    eras["several"] = several[eras["event"].to_numpy()] if len(eras) else False
    kept = events[events["person"].isin(eras["person"])]
    attrition = pd.DataFrame(
        steps, columns=["reason_id", "reason", "number_records", "number_subjects"]
    )
    return TargetPathways(target, name, _paths(eras), _durations(eras), _counts(kept), attrition)


def _window_text(plan: PathwayPlan) -> str:
    """Describe the window as R does."""
    w, anchors = plan.window, {"first": "startDate", "last": "endDate"}
    return f"{anchors[w.start]}: {w.start_offset} | {anchors[w.end]}: {w.end_offset}"


def _coded(plan: PathwayPlan, events: pd.DataFrame) -> tuple[EventCodes, pd.DataFrame]:
    """Number the events; a split cohort has two, by the length of the entry."""
    names = plan.of_type("event") | plan.of_type("exit")
    event = np.zeros(len(events), np.int64)
    cohort, length = events["cohort"].to_numpy(), events["length"].to_numpy()
    shortest = dict(plan.splits)
    labels = [n if i not in shortest else f"{n} (acute)" for i, n in names.items()]
    labels += [f"{names[i]} (therapy)" for i in shortest]
    codes = EventCodes(labels)
    for k, i in enumerate(names):
        event[cohort == i] = k
    for k, (i, days) in enumerate(plan.splits):
        event[(cohort == i) & (length >= days)] = len(names) + k
    return codes, events.assign(event=event)


def _paths(eras: pd.DataFrame) -> pd.DataFrame:
    """Count pathways and the people who have them."""
    joined = eras.groupby("group", sort=False).agg(
        pathway=("event_name", "-".join), events=("event_name", tuple), person=("person", "first")
    )
    found = joined.groupby("pathway", as_index=False).agg(
        events=("events", "first"), freq=("person", "size"), people=("person", "nunique")
    )
    return found.sort_values(["freq", "pathway"], ascending=[False, True], ignore_index=True)


def _durations(eras: pd.DataFrame) -> pd.DataFrame:
    """Summarise the days of eras by event, kind of event and place in the pathway."""
    kind = np.where(eras["several"], "combination-event", "mono-event")
    tables = []
    for name, of_kind in ((kind, None), (eras["event_name"].to_numpy(), kind)):
        for line in (OVERALL, eras["line"].astype(str)):
            made = eras.assign(event_name=name, line=line, kind=of_kind)
            days = made.groupby(["event_name", "line"])
            found = days.agg(
                duration_min=("days", "min"), duration_max=("days", "max"),
                duration_average=("days", "mean"), duration_sd=("days", "std"),
                event_count=("days", "size"), people=("person", "nunique"),
                kind=("kind", "first"),
            )  # fmt: skip
            for column, share in QUARTILES.items():
                found[column] = days["days"].quantile(share)
            tables.append(found.reset_index())
    return pd.concat(tables, ignore_index=True)


def _counts(events: pd.DataFrame) -> pd.DataFrame:
    """Count people by their age at the first event, sex and first index year."""
    first = events.sort_values(["person", "start", "end", "event"], kind="stable")
    of = first.groupby("person", as_index=False).agg(
        age=("age", "first"), sex=("sex", "first"), index_year=("index_year", "min")
    )
    tables = []
    for kind in ("age", "sex", "index_year"):
        n = of.groupby(kind).size().rename("n").rename_axis("value").reset_index()
        tables.append(n.assign(kind=kind, value=n["value"].astype(object)))
    return pd.concat(tables, ignore_index=True)
