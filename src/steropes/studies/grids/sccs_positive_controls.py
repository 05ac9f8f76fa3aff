"""Synthetic positive controls of case series: outcomes injected into exposed time."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steropes.designs.controls.signal_injection import InjectedOutcomes, closest_draw
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.age_sql import age_sql, birth_day_sql
from steropes.studies.database.observation_periods import joined_periods, joined_spells
from steropes.studies.database.omop import OmopDatabase, Workspace
from steropes.studies.sccs.cases.era_sources import EraSources
from steropes.studies.sccs.specification.case_series_grid_settings import (
    SeriesPositives,
    SeriesQuestion,
)
from steropes.studies.sccs.specification.case_series_settings import CaseRules
from steropes.studies.specifications.positive_controls import FIRST

__all__ = ["add_to_exposed_time"]


@dataclass(frozen=True, repr=False, eq=False)
class _Exposed:
    """Exposed time of people as spans of days, with the outcomes in each span.

    Attributes
    ----------
    person, first, last : (m,) int arrays
        Spans that do not overlap, in days since 1970-01-01.
    group : (m,) int array
        Sex and decade of age on the first day of the span.
    outcomes : (m,) int array
        Number of outcomes in each span.
    """

    person: NDArray
    first: NDArray
    last: NDArray
    group: NDArray
    outcomes: NDArray


def add_to_exposed_time(
    db: OmopDatabase, question: SeriesQuestion, rules: CaseRules, rule: SeriesPositives,
    cohorts: CohortTable | None = None,
) -> list[tuple[dict[str, Any], CohortTable]]:  # fmt: skip
    """Create the positive controls of one negative control, each with its outcomes as a cohort.

    Outcomes are injected into the exposed time of each person at (ratio − 1) times the rate of
    exposed people of the same sex and decade of age, uniformly over exposed days. Draws are
    repeated until the number of outcomes in exposed time is multiplied by the ratio, to within
    ``precision``. The result depends only on the arguments.

    Parameters
    ----------
    rules : CaseRules
        Rules on the source of outcomes and exposures.

    Returns
    -------
    list of (dict, CohortTable)
        Empty with fewer than ``min_outcomes`` outcomes in exposed time. The rows have ``outcome``
        (id of the cohort), ``target_ratio``, ``true_effect_size`` (the ratio reached),
        ``outcomes_before`` and ``outcomes_added``.
    """
    with db.workspace() as work:
        sources = EraSources(db, work, rules, cohorts)
        exposed = _exposed(db, work, sources, question.exposure, rule)
        found = work.arrays(f"SELECT person_id, on_day FROM ({sources.outcomes()}) ORDER BY 1, 2")
        name = sources.outcome_name()
    before = int(exposed.outcomes.sum())
    if before < rule.min_outcomes:
        return []
    days = exposed.last - exposed.first + 1
    groups = int(exposed.group.max()) + 1
    rate = np.bincount(exposed.group, exposed.outcomes, groups) / np.maximum(
        np.bincount(exposed.group, days, groups), 1
    )
    expected = rate[exposed.group] * days
    made = []
    for ratio in rule.ratios:
        added = _drawn(exposed, expected, ratio, before, rule, question.number)
        outcome = FIRST + zlib.crc32(repr((question.number, ratio)).encode())
        subject = np.concatenate((found["person_id"].astype(np.int64), added.person))
        days_added = added.day.astype("datetime64[D]")
        start = np.concatenate((found["on_day"].astype("datetime64[D]"), days_added))
        row = {
            "outcome": outcome,
            "target_ratio": ratio,
            "true_effect_size": added.ratio,
            "outcomes_before": before,
            "outcomes_added": len(added.person),
        }
        names = {outcome: f"{name}, {ratio:g} times"}
        definition = np.full(len(subject), outcome)
        made.append((row, CohortTable(definition, subject, start, start, db.identity, names)))
    return made


def _exposed(
    db: OmopDatabase, work: Workspace, sources: EraSources, exposure: int, rule: SeriesPositives
) -> _Exposed:
    """Join the windows of the eras, cut them to observation and count the outcomes in them."""
    table = sources.rules.exposures_from
    relation = sources.relation(table, sources.members(table, [exposure]))
    end = "e.last" if rule.risk_end_at == "end" else "e.first"
    work.run(f"CREATE OR REPLACE TEMP TABLE outcomes AS {sources.outcomes()}")
    found = work.arrays(f"""
    WITH windows AS (
        SELECT e.person_id, greatest(e.first + {int(rule.risk_start)}, o.first) AS first,
               least({end} + {int(rule.risk_end)}, o.last) AS last
        FROM ({relation}) e JOIN ({joined_periods(db)}) o USING (person_id)),
    joined AS (
        SELECT person_id, first AS lo, last AS hi
        FROM ({joined_spells("SELECT * FROM windows WHERE first <= last")})),
    people AS (  -- repeated rows of a person would repeat the outcomes
        SELECT person_id, min(gender_concept_id) AS sex,
               {birth_day_sql(db.columns("person"))} AS born
        FROM {db.table("person")} GROUP BY 1)
    SELECT j.person_id::BIGINT AS person_id, (lo - DATE '1970-01-01')::BIGINT AS lo,
           (hi - DATE '1970-01-01')::BIGINT AS hi,
           any_value(coalesce(p.sex, 0))::BIGINT AS sex,
           any_value(floor(coalesce({age_sql("p.born", "lo")}, 0) / 10))::BIGINT AS decade,
           count(x.on_day)::BIGINT AS n
    FROM joined j JOIN people p USING (person_id)
    LEFT JOIN outcomes x ON x.person_id = j.person_id AND x.on_day BETWEEN lo AND hi
    GROUP BY 1, 2, 3 ORDER BY 1, 2""")
    columns = ("person_id", "lo", "hi", "sex", "decade", "n")
    person, lo, hi, sex, decade, n = (found[c] for c in columns)
    key = np.column_stack([sex, decade])
    group = np.unique(key, axis=0, return_inverse=True)[1].ravel() if len(key) else sex
    return _Exposed(person, lo, hi, group, n)


def _drawn(
    exposed: _Exposed,
    expected: NDArray,
    ratio: float,
    before: int,
    rule: SeriesPositives,
    number: int,
) -> InjectedOutcomes:
    """Draw people and days of the injected outcomes."""
    days = exposed.last - exposed.first + 1

    def inject(draw: np.random.Generator) -> InjectedOutcomes:
        """Draw the outcomes once; a person has at most one on a day."""
        counts = draw.poisson((ratio - 1) * expected)
        span = np.repeat(np.arange(len(counts)), counts)
        on = exposed.first[span] + np.floor(draw.random(len(span)) * days[span]).astype(np.int64)
        pairs = np.unique(np.column_stack([exposed.person[span], on]), axis=0)
        return InjectedOutcomes(pairs[:, 0], pairs[:, 1], (before + len(pairs)) / before)

    return closest_draw(inject, ratio, rule.precision, rule.tries, (rule.seed, ratio, number))
