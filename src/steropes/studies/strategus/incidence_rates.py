"""Incidence rates of cohorts, computed as CohortIncidence computes them."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd

from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.concept_names_and_descendants import sex_labels
from steropes.studies.database.irregular_rows import distinct_people, leave_out_unknown_people
from steropes.studies.database.observation_periods import observation_periods
from steropes.studies.database.omop import OmopDatabase, Workspace
from steropes.studies.strategus_plans.incidence_plan import IncidencePlan

__all__ = ["incidence_tables"]

ENTRIES = "incidence_entries"
REFERENCE = 1  # The number of the design in the result tables.
KEYS = ["target", "tar", "outcome"]
STRATA = ["age_group_id", "gender_id", "start_year"]
COUNTS = [
    "persons_at_risk_pe", "persons_at_risk", "person_outcomes_pe", "person_outcomes",
    "outcomes_pe", "outcomes",
]  # fmt: skip


def incidence_tables(
    db: OmopDatabase, plan: IncidencePlan, cohorts: CohortTable
) -> dict[str, pd.DataFrame]:
    """Compute the rates, and the tables that describe the design.

    Time at risk is cut to the observation period, and times that overlap are joined. Days after an
    outcome until the end of its clean window are excluded.

    Returns
    -------
    dict of str to DataFrame
        Exact tables, which are not for release.
    """
    with db.workspace() as work:
        cohorts.place(work, ENTRIES)
        leave_out_unknown_people(db, work, ENTRIES)
        _definitions(work, plan)
        _time_at_risk(db, work, plan)
        _excluded(work)
        _outcomes(work)
        rates = _rates(work, plan)
    sexes = sex_labels(db, rates["gender_id"].dropna().unique())
    rates["gender_name"] = rates["gender_id"].map(sexes)
    return {"ci_incidence_summary": rates.assign(ref_id=REFERENCE), **_design(plan)}


# -- steps -----------------------------------------------------------------------------------------


def _definitions(work: Workspace, plan: IncidencePlan) -> None:
    """Create tables of the combinations, times at risk and outcomes in use."""
    design = plan.design
    tars = [
        (t.id, t.start.date_field, t.start.offset, t.end.date_field, t.end.offset)
        for t in design.time_at_risk_defs
    ]
    outcomes = [
        (o.id, o.cohort_id, o.clean_window, o.exclude_cohort_id or -1) for o in design.outcome_defs
    ]
    asked = [(c.target, c.tar, c.outcome) for c in plan.combinations]
    for name, columns, rows in (
        ("ci_tar", ["tar", "start_with", "start_offset", "end_with", "end_offset"], tars),
        ("ci_outcome", ["outcome", "cohort", "clean", "excluded"], outcomes),
        ("ci_asked", KEYS, asked),
    ):
        frame = pd.DataFrame(rows, columns=columns)
        work.connection.register("ci_given", frame)
        work.run(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT * FROM ci_given")
        work.connection.unregister("ci_given")


def _joined(source: str, keys: str) -> str:
    """Return SQL that joins periods (``first``, ``last``) of the same keys that overlap.

    Of equal periods the new one counts first, as in `joined_spells`.
    """
    ordered = f"PARTITION BY {keys} ORDER BY first, last"
    return f"""
    SELECT {keys}, min(first) AS first, max(last) AS last FROM (
        SELECT *, sum(new) OVER ({ordered}, new DESC ROWS UNBOUNDED PRECEDING) AS period FROM (
            SELECT *, CASE WHEN max(last) OVER ({ordered} ROWS BETWEEN UNBOUNDED PRECEDING
                AND 1 PRECEDING) >= first THEN 0 ELSE 1 END AS new
            FROM ({source})))
    GROUP BY {keys}, period
    """


def _time_at_risk(db: OmopDatabase, work: Workspace, plan: IncidencePlan) -> None:
    """Create the table of times at risk by target, definition and person."""
    window = plan.design.study_window
    start = None if window is None else window.start_date
    end = None if window is None else window.end_date
    last = "last" if end is None else f"least(last, DATE '{end.isoformat()}')"
    conditions = ["TRUE"]
    conditions += [] if start is None else [f"first >= DATE '{start.isoformat()}'"]
    conditions += [] if end is None else [f"first <= DATE '{end.isoformat()}'"]

    def day(which: str) -> str:
        """Return the first or last day at risk."""
        return (
            f"CASE r.{which}_with WHEN 'start' THEN c.cohort_start_date ELSE c.cohort_end_date END "
            f"+ r.{which}_offset::INTEGER"
        )

    source = f"""
    SELECT target, tar, person, first, least(last, observed_to) AS last FROM (
        SELECT c.cohort_definition_id AS target, r.tar, c.subject_id AS person,
            {day("start")} AS first, {day("end")} AS last,
            op.observation_period_start_date::DATE AS observed_from,
            op.observation_period_end_date::DATE AS observed_to
        FROM {ENTRIES} c
        JOIN (SELECT DISTINCT target, tar FROM ci_asked) a ON a.target = c.cohort_definition_id
        JOIN ci_tar r ON r.tar = a.tar
        JOIN {observation_periods(db)} op ON op.person_id = c.subject_id
            AND c.cohort_start_date BETWEEN op.observation_period_start_date
            AND op.observation_period_end_date)
    WHERE first <= last AND first BETWEEN observed_from AND observed_to
    """
    people = distinct_people(db, f"SELECT subject_id FROM {ENTRIES}")
    work.run(
        f"CREATE OR REPLACE TEMP TABLE ci_risk AS SELECT t.*, year(t.first) AS start_year, "
        f"year(t.first) - p.year_of_birth AS age, p.gender_concept_id::BIGINT AS gender_id FROM ("
        f"SELECT target, tar, person, first, {last} AS last "
        f"FROM ({_joined(source, 'target, tar, person')}) "
        f"WHERE {' AND '.join(conditions)}) t "
        f"JOIN {people} p ON p.person_id = t.person"
    )


def _excluded(work: Workspace) -> None:
    """Create the table of days at risk that are excluded, by time at risk and outcome."""
    source = f"""
    SELECT c.subject_id AS person, o.outcome, c.cohort_start_date + 1 AS first,
        c.cohort_end_date + o.clean::INTEGER AS last
    FROM {ENTRIES} c JOIN ci_outcome o ON o.cohort = c.cohort_definition_id
    WHERE c.cohort_end_date + o.clean::INTEGER >= c.cohort_start_date + 1
    UNION ALL
    SELECT c.subject_id, o.outcome, c.cohort_start_date, c.cohort_end_date
    FROM {ENTRIES} c JOIN ci_outcome o ON o.excluded = c.cohort_definition_id
    """
    work.run(
        "CREATE OR REPLACE TEMP TABLE ci_excluded AS "
        "SELECT r.target, r.tar, r.person, r.first, x.outcome, "
        "greatest(x.first, r.first) AS excluded_first, least(x.last, r.last) AS excluded_last "
        f"FROM ci_risk r JOIN ({_joined(source, 'person, outcome')}) x "
        "ON x.person = r.person AND x.first <= r.last AND x.last >= r.first"
    )


def _outcomes(work: Workspace) -> None:
    """Create the table of outcomes and excluded days of each time at risk that has any."""
    same = "x.target = r.target AND x.tar = r.tar AND x.person = r.person AND x.first = r.first"
    work.run(f"""
    CREATE OR REPLACE TEMP TABLE ci_events AS
    SELECT r.target, r.tar, r.person, r.first, o.outcome, count(*) AS outcomes_pe,
        count(*) FILTER (NOT EXISTS (SELECT 1 FROM ci_excluded x WHERE {same}
            AND x.outcome = o.outcome
            AND c.cohort_start_date BETWEEN x.excluded_first AND x.excluded_last)) AS outcomes
    FROM ci_risk r JOIN {ENTRIES} c ON c.subject_id = r.person
        AND c.cohort_start_date BETWEEN r.first AND r.last
    JOIN ci_outcome o ON o.cohort = c.cohort_definition_id
    GROUP BY ALL
    """)
    work.run("""
    CREATE OR REPLACE TEMP TABLE ci_at_risk AS
    SELECT r.target, r.tar, r.person, r.start_year, r.age, r.gender_id, a.outcome,
        (r.last - r.first + 1)::INTEGER AS days, coalesce(x.days, 0)::INTEGER AS excluded_days,
        coalesce(e.outcomes_pe, 0)::INTEGER AS outcomes_pe,
        coalesce(e.outcomes, 0)::INTEGER AS outcomes
    FROM ci_risk r JOIN ci_asked a ON a.target = r.target AND a.tar = r.tar
    LEFT JOIN (SELECT target, tar, person, first, outcome,
            sum(excluded_last - excluded_first + 1) AS days FROM ci_excluded GROUP BY ALL) x
        ON x.target = r.target AND x.tar = r.tar AND x.person = r.person AND x.first = r.first
        AND x.outcome = a.outcome
    LEFT JOIN ci_events e ON e.target = r.target AND e.tar = r.tar AND e.person = r.person
        AND e.first = r.first AND e.outcome = a.outcome
    """)
    work.run("DROP TABLE ci_excluded")
    work.run("DROP TABLE ci_events")


def _rates(work: Workspace, plan: IncidencePlan) -> pd.DataFrame:
    """Return the counts of everybody and of all combinations of strata."""
    groups = pd.DataFrame(
        [
            (g.id, -999 if g.low is None else g.low, 999 if g.high is None else g.high)
            for g in plan.age_groups
        ],
        columns=["age_group_id", "low", "high"],
    ).astype("int64")
    work.connection.register("ci_ages", groups)
    chosen = dict(
        zip(STRATA, (plan.strata.by_age, plan.strata.by_gender, plan.strata.by_year), strict=True)
    )
    by = [name for name, on in chosen.items() if on]
    # Counts of distinct people take most of the time and memory, and most people are at risk once.
    [(once,)] = work.rows(
        "SELECT coalesce(max(times), 1) = 1 FROM "
        "(SELECT count(*) AS times FROM ci_risk GROUP BY target, tar, person)"
    )
    people = "*" if once else "DISTINCT person"
    parts = []
    for some in itertools.chain.from_iterable(
        itertools.combinations(by, n) for n in range(len(by) + 1)
    ):
        columns = [n if n in some else f"NULL::BIGINT AS {n}" for n in STRATA]
        join = "JOIN ci_ages g ON age >= low AND age < high" if "age_group_id" in some else ""
        parts.append(f"""
        SELECT target, tar, outcome, {", ".join(columns)},
            count({people}) AS persons_at_risk_pe,
            count({people}) FILTER (days > excluded_days) AS persons_at_risk,
            sum(days) AS person_days_pe, sum(days - excluded_days) AS person_days,
            count({people}) FILTER (outcomes_pe > 0) AS person_outcomes_pe,
            count({people}) FILTER (outcomes > 0) AS person_outcomes,
            sum(outcomes_pe) AS outcomes_pe, sum(outcomes) AS outcomes
        FROM ci_at_risk {join} GROUP BY {", ".join([*KEYS, *some])}
        """)
    for place, part in enumerate(parts):  # One after the other, each in the memory of the last.
        work.run(f"{'INSERT INTO ci_rates' if place else 'CREATE TEMP TABLE ci_rates AS'} {part}")
    found = work.frame("SELECT * FROM ci_rates ORDER BY ALL")
    work.connection.unregister("ci_ages")
    everybody = work.frame("SELECT * FROM ci_asked")
    overall = found[found[STRATA].isna().all(axis=1)][KEYS]
    nobody = everybody.merge(overall, on=KEYS, how="left", indicator=True)
    nobody = nobody[nobody["_merge"] == "left_only"][KEYS]
    whole = pd.concat([found, nobody], ignore_index=True) if len(nobody) else found
    numbers = [*COUNTS, "person_days_pe", "person_days"]
    whole[numbers] = whole[numbers].fillna(0).astype("int64")
    return whole.rename(
        columns={"target": "target_cohort_definition_id", "tar": "tar_id", "outcome": "outcome_id"}
    ).assign(subgroup_id=0)


def _design(plan: IncidencePlan) -> dict[str, pd.DataFrame]:
    """Return the tables that describe the design."""
    design = plan.design
    cohort = {o.id: o.cohort_id for o in design.outcome_defs}
    pairs = dict.fromkeys((c.target, cohort[c.outcome]) for c in plan.combinations)
    rows: dict[str, list[dict[str, Any]]] = {
        "ci_target_def": [
            {"target_cohort_definition_id": t.id, "target_name": t.name} for t in design.target_defs
        ],
        "ci_outcome_def": [
            {
                "outcome_id": o.id,
                "outcome_cohort_definition_id": o.cohort_id,
                "outcome_name": o.name,
                "clean_window": o.clean_window,
                "excluded_cohort_definition_id": o.exclude_cohort_id,
            }
            for o in design.outcome_defs
        ],
        "ci_tar_def": [
            {
                "tar_id": t.id,
                "tar_start_with": t.start.date_field,
                "tar_start_offset": t.start.offset,
                "tar_end_with": t.end.date_field,
                "tar_end_offset": t.end.offset,
            }
            for t in design.time_at_risk_defs
        ],
        "ci_age_group_def": [
            {"age_group_id": g.id, "age_group_name": g.name, "min_age": g.low, "max_age": g.high}
            for g in plan.age_groups
        ],
        "ci_subgroup_def": [{"subgroup_id": 0, "subgroup_name": "All"}],
        "ci_target_outcome_ref": [
            {"target_cohort_id": t, "outcome_cohort_id": o} for t, o in pairs
        ],
    }
    return {name: pd.DataFrame(of).assign(ref_id=REFERENCE) for name, of in rows.items()}
