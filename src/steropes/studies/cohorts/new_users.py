"""New users of two drugs, with attrition, time at risk and events.

The rules are one SQL statement that determines the *first rule that each exposed person fails*.
The cohort and the attrition table are both read from its result, so they cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from steropes.errors import DataError
from steropes.studies.cohorts.cohort_frame import People
from steropes.studies.database.data_notes import DataNote, distinct, explained
from steropes.studies.database.descendants import Descendants
from steropes.studies.database.domain_hints import domain_hint
from steropes.studies.database.irregular_rows import repeated_people, reversed_eras
from steropes.studies.database.observation_periods import (
    DATED,
    joined_periods,
    joined_periods_note,
    undated_periods,
)
from steropes.studies.database.omop import OmopDatabase, Workspace
from steropes.studies.disclosure import LEAST, shown
from steropes.studies.execution.validation import LONGEST, concept, whole, yes_or_no

__all__ = ["RULES", "Cohort", "CohortRules", "new_user_cohort"]

ARMS = ("target", "comparator")
DRUG_ERA = ("drug_era_start_date", "drug_era_end_date")
ALONE = "take concepts alone with descendants=False (--no-descendants)"
# The order in which the rules are applied. {washout} is filled in for display, and "dated" is
# listed only if it drops somebody.
RULES = {
    "exposed": "any drug era of this drug",
    "first": "did not begin the other study drug earlier",
    "single": "did not begin both drugs on the same day",
    "dated": DATED,
    "observed": "start lies within an observation period",
    "washout": "at least {washout} days of observation before the start",
    "no_outcome": "no outcome on or before the start, ever",
    "time_at_risk": "at least one day at risk after the start",
}


@dataclass(frozen=True)
class CohortRules:
    """The definition of a new-user cohort of two drugs and one outcome.

    Attributes
    ----------
    target, comparator : int
        Concept ids of the drugs as recorded in ``drug_era``: ingredients, or classes whose
        descendants are ingredients.
    outcome : int
        Concept id of a condition as recorded in ``condition_occurrence``.
    washout_days : int, default 365
        Days of observation required before the start, in the same observation period.
    risk_days : int, optional
        Last day at risk, relative to the start. Default: the end of the observation period.
    descendants : bool, default True
        Also include all descendants of the concepts in ``concept_ancestor``.
    """

    target: int
    comparator: int
    outcome: int
    washout_days: int = 365
    risk_days: int | None = None
    descendants: bool = True

    def __post_init__(self) -> None:
        for role in ("target", "comparator", "outcome"):
            concept(role, getattr(self, role))
        whole("washout_days", self.washout_days, 0, LONGEST)
        if self.risk_days is not None:
            whole("risk_days", self.risk_days, 1, LONGEST)
        yes_or_no("descendants", self.descendants)


@dataclass(frozen=True, repr=False)
class Cohort:
    """People of both arms in a fixed order, with their attrition.

    A cohort is independent of the connection: it leaves nothing in the database and remains valid
    after the connection is closed.

    Attributes
    ----------
    people : DataFrame
        One row per person, ordered by person id: ``person_id``, ``treated`` (1 target,
        0 comparator), ``start`` (index date), ``time`` (days at risk, counted from the start) and
        ``event`` (1 if the first outcome falls in the time at risk).
    attrition : DataFrame
        One row per rule: ``rule``, then ``target``, ``target_dropped``, ``comparator``,
        ``comparator_dropped`` (people left after the rule, and people it dropped).
    drug_concepts : list of int
        The study drugs and all their descendants, which covariates must not include.
    database : str
        The database of the people, as in ``OmopDatabase.identity``.
    notes : tuple of DataNote
        Irregularities of the data that affect the cohort, such as overlapping observation periods.
    """

    people: pd.DataFrame
    attrition: pd.DataFrame
    drug_concepts: list[int]
    database: str
    notes: tuple[DataNote, ...] = ()

    def __repr__(self) -> str:
        target, comparator = (shown(self.attrition[a].iloc[-1], LEAST) for a in ARMS)
        return f"Cohort({target} people on the target drug, {comparator} on the comparator)"


def new_user_cohort(db: OmopDatabase, rules: CohortRules) -> Cohort:
    """Build a cohort of new users of two drugs.

    A person starts on the day of the first era of either drug, in the arm of that drug. People
    stay in the cohort if they did not start both drugs on that day, their start lies in an
    observation period (periods that overlap or touch are joined) with ``washout_days`` of it
    before, they had no outcome at any recorded time up to the start inclusive, and their
    observation extends beyond the start. The time at risk runs from the day after the start to the
    end of that observation period, or to day ``risk_days`` if that is earlier; an outcome on day k
    after the start has time k.

    Raises
    ------
    DataError
        A concept is unknown, the vocabulary has no links to find descendants, the drugs overlap,
        or an arm is empty.
    """
    cohort = find_new_users(db, rules)
    empty = describe_empty_arm(db, rules, cohort.attrition)
    if empty:
        raise DataError(explained(empty, cohort.notes))
    return cohort


def find_new_users(db: OmopDatabase, rules: CohortRules) -> Cohort:
    """Build a cohort as :func:`new_user_cohort` does, but allow an empty arm."""
    names = {c: db.concept_name(c) for c in (rules.target, rules.comparator, rules.outcome)}
    family = Descendants(db, names)

    def members(role: str, table: str) -> list[int]:
        concept = int(getattr(rules, role))
        if not rules.descendants:
            return [concept]
        return family.members([concept], [table], f"the {role}", ALONE)

    target, comparator = members("target", "drug_era"), members("comparator", "drug_era")
    shared = sorted({*target} & {*comparator})
    if shared:
        raise DataError(
            f"target {rules.target} ({names[rules.target]}) and comparator {rules.comparator} "
            f"({names[rules.comparator]}) overlap: both include concept {shared[0]}"
        )
    outcome = members("outcome", "condition_occurrence")
    _refuse_no_condition(db, rules.outcome, outcome)
    with db.workspace() as work:
        _judge(db, work, rules, target, comparator, outcome)
        _keep(work)
        attrition = _attrition(work, rules)
        exposed = "SELECT person_id FROM judged"
        of_drugs = f"drug_concept_id IN ({_list([*target, *comparator])})"
        notes = (
            *joined_periods_note(work, joined_periods(db, exposed)),
            *repeated_people(db, work, exposed),
            *reversed_eras(work, db.table("drug_era"), "drug_era", DRUG_ERA, of_drugs),
        )
        people = work.arrays(
            "SELECT person_id, treated, start, time, event FROM cohort ORDER BY row_id"
        )
    table = People(people)
    drugs = db.descendants([*target, *comparator])
    return Cohort(table, attrition, drugs, db.identity, distinct((*family.notes, *notes)))


def _refuse_no_condition(db: OmopDatabase, outcome: int, members: list[int]) -> None:
    """Raise if the outcome is not a condition, by the vocabulary and by the records."""
    hint = domain_hint(db, outcome, "condition_occurrence")
    if hint and not db.rows(
        f"SELECT 1 FROM {db.table('condition_occurrence')} "
        f"WHERE condition_concept_id IN ({_list(members)}) LIMIT 1"
    ):
        raise DataError(f"nobody has the outcome {outcome} ({db.concept_name(outcome)}){hint}")


def describe_empty_arm(db: OmopDatabase, rules: CohortRules, attrition: pd.DataFrame) -> str:
    """Describe the empty arm and the rule that emptied it; "" if both arms have people."""
    for arm in ARMS:
        concept_id = getattr(rules, arm)
        name = db.concept_name(concept_id)
        if attrition[arm].iloc[0] == 0:
            hint = domain_hint(db, concept_id, "drug_era")
            return f"nobody has a drug era of the {arm} {concept_id} ({name}){hint}"
        if attrition[arm].iloc[-1] == 0:
            rule = attrition["rule"][attrition[arm] == 0].iloc[0]
            return f"nobody is left in the {arm} arm, {concept_id} ({name}), after the rule: {rule}"
    return ""


def _judge(
    db: OmopDatabase,
    work: Workspace,
    rules: CohortRules,
    target: list[int],
    comparator: list[int],
    outcome: list[int],
) -> None:
    """Create the temporary table ``judged``: person × arm, and the first rule that fails."""
    known = f"SELECT person_id FROM arms INTERSECT SELECT person_id FROM {db.table('person')}"
    horizon = "o.last" if rules.risk_days is None else f"start + {int(rules.risk_days)}"
    work.run(f"""
    CREATE TEMP TABLE judged AS
    WITH began AS (  -- the first day of each person on either drug
        SELECT person_id::BIGINT AS person_id,
               min(drug_era_start_date) FILTER (
                   drug_concept_id IN ({_list(target)})) AS target_start,
               min(drug_era_start_date) FILTER (
                   drug_concept_id IN ({_list(comparator)})) AS comparator_start
        FROM {db.table("drug_era")}
        WHERE drug_concept_id IN ({_list([*target, *comparator])})
          AND drug_era_start_date IS NOT NULL
        GROUP BY 1),
    arms AS (
        SELECT person_id, 1 AS treated, target_start AS start, comparator_start AS other
        FROM began WHERE target_start IS NOT NULL
        UNION ALL
        SELECT person_id, 0, comparator_start, target_start
        FROM began WHERE comparator_start IS NOT NULL),
    periods AS (  -- the joined observation periods; at most one of them contains a start
        {joined_periods(db, known)}),
    undated AS ({undated_periods(db, known)}),
    outcomes AS (
        SELECT person_id, min(condition_start_date) AS first_outcome
        FROM {db.table("condition_occurrence")}
        WHERE condition_concept_id IN ({_list(outcome)})
        GROUP BY 1),
    facts AS (
        SELECT a.*, o.first AS period_start, first_outcome,
               least(o.last, {horizon}) AS risk_end,
               o.first IS NULL AND EXISTS (
                   SELECT 1 FROM undated u WHERE u.person_id = a.person_id
                   AND a.start BETWEEN u.earliest AND u.latest) AS lacks_date
        FROM arms a
        LEFT JOIN periods o ON o.person_id = a.person_id AND a.start BETWEEN o.first AND o.last
        LEFT JOIN outcomes ON outcomes.person_id = a.person_id)
    SELECT person_id, treated, start, risk_end, first_outcome,
           CASE WHEN other < start THEN 'first'
                WHEN other = start THEN 'single'
                WHEN lacks_date THEN 'dated'
                WHEN period_start IS NULL THEN 'observed'
                WHEN start - period_start < {int(rules.washout_days)} THEN 'washout'
                WHEN first_outcome <= start THEN 'no_outcome'
                WHEN risk_end <= start THEN 'time_at_risk'
           END AS fails
    FROM facts
    """)


def _keep(work: Workspace) -> None:
    """Create the temporary table ``cohort`` of those who fail no rule."""
    # An outcome after the end of the time at risk is not an event; the rules leave none before the
    # start.
    work.run("""
    CREATE TEMP TABLE cohort AS
    SELECT (row_number() OVER (ORDER BY person_id) - 1)::INTEGER AS row_id,
           person_id, treated::TINYINT AS treated, start,
           (least(risk_end, coalesce(first_outcome, risk_end)) - start)::DOUBLE AS time,
           coalesce(first_outcome <= risk_end, FALSE)::TINYINT AS event
    FROM judged WHERE fails IS NULL
    ORDER BY person_id
    """)


def _attrition(work: Workspace, rules: CohortRules) -> pd.DataFrame:
    """Count the people left after each rule and the people it dropped."""
    failed = {
        (treated, rule): n
        for treated, rule, n in work.rows(
            "SELECT treated, fails, count(*) FROM judged GROUP BY 1, 2"
        )
    }
    left = {arm: sum(n for (a, _), n in failed.items() if a == arm) for arm in (1, 0)}
    lines = []
    for rule, text in RULES.items():
        if rule == "dated" and not any(failed.get((arm, rule), 0) for arm in (1, 0)):
            continue
        line: dict[str, object] = {"rule": text.format(washout=rules.washout_days)}
        for arm, name in ((1, "target"), (0, "comparator")):
            dropped = failed.get((arm, rule), 0)
            left[arm] -= dropped
            line |= {name: left[arm], f"{name}_dropped": dropped}
        lines.append(line)
    return pd.DataFrame(lines)


def _list(concepts: list[int]) -> str:
    """Join concept ids with commas."""
    return ", ".join(str(int(c)) for c in concepts)
