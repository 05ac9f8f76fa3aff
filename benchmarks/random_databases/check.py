"""Compare what the library finds in a random database with the reference."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steropes.errors import DataError
from steropes.studies import OmopDatabase
from steropes.studies.cohorts import (
    CohortTable,
    ComparisonRules,
    ConceptSet,
    TimeAtRisk,
    compare_cohorts,
    condition_cohorts,
    drug_era_cohorts,
    study_population,
)
from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES
from steropes.studies.covariates.feature_extraction import FeatureRules, extract_features

from . import reference
from .case_series import case_series_findings
from .draw import COMPARATOR, OUTCOME, TARGET, Database, draw_database
from .store import to_duckdb, to_parquet, to_postgresql

__all__ = ["STATUSES", "Judgement", "judge"]

CONCEPTS = (102, 402, 502, 702, 802)  # FeatureExtraction's concepts of the year before the start
LAST_VALUES = 706  # FeatureExtraction's number of the last values of a year
STATUSES = ("agree", "refused", "DIFFERENT")


@dataclass
class Judgement:
    """What became of a database."""

    seed: int
    oddities: list[str]
    status: str = "agree"
    findings: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def differ(self, finding: str) -> None:
        """Note a silent difference."""
        self.status = "DIFFERENT"
        self.findings.append(finding)


def judge(seed: int, engines: tuple[str, ...] = ("duckdb", "parquet"), url: str = "") -> Judgement:
    """Draw a database, run the studies on each engine, and compare."""
    db = draw_database(seed)
    said = Judgement(seed, db.oddities)
    with tempfile.TemporaryDirectory() as folder:
        for engine in engines:
            schema = db.schema
            if engine == "duckdb":
                source: Any = to_duckdb(db, Path(folder) / "omop.duckdb")
            elif engine == "parquet":
                source, schema = to_parquet(db, Path(folder) / "parquet"), "main"
            else:
                schema = f"random_{seed}"
                to_postgresql(db, url, schema)
                source = url
            with OmopDatabase(source, schema) as opened:
                _compare(opened, db, said, engine)
    if said.refusals and said.status == "agree":
        said.status = "refused"
    return said


def _compare(opened: OmopDatabase, db: Database, said: Judgement, engine: str) -> None:
    rng = np.random.default_rng([said.seed, 1])
    washout = int(rng.choice([0, 1, 180, 365]))
    risk_days = None if rng.random() < 0.5 else int(rng.choice([1, 30, 365]))
    checks: tuple[tuple[str, Callable[[], list[str]]], ...] = (
        ("new users", lambda: _new_users(opened, db, washout, risk_days)),
        ("population", lambda: _population(opened, db, washout, risk_days)),
        # Small databases have few cases, so that several settings are drawn for each.
        *[("case series", lambda: case_series_findings(opened, db, rng))] * 3,
    )
    for name, check in checks:
        try:
            for finding in check():
                said.differ(f"{engine}, {name}: {finding}")
        except DataError as error:
            said.refusals.append(f"{engine}, {name}: {error}")
        except Exception as error:  # a raw error is a finding too
            said.differ(f"{engine}, {name}: {type(error).__name__}: {error}")


def _new_users(
    opened: OmopDatabase, db: Database, washout: int, risk_days: int | None
) -> list[str]:
    """Compare the new users of both drugs, their covariates and their values."""
    drugs, outcomes = _cohorts(opened, db)
    rules = ComparisonRules(both="keep first", washout_days=washout, common_period=False)
    comparison = compare_cohorts(opened, drugs, 1, 2, rules)
    at_risk = TimeAtRisk()
    if risk_days is not None:
        at_risk = TimeAtRisk(end=risk_days, end_anchor="cohort start")
    found = pd.DataFrame(study_population(comparison, outcomes, 3, at_risk).people)
    people = reference.new_users(db, washout, risk_days)
    findings = _differences(
        [
            (int(p), int(a), pd.Timestamp(s).date(), int(t), int(e))
            for p, a, s, t, e in found[
                ["person_id", "treated", "start", "time", "event"]
            ].itertuples(index=False)
        ],
        [(p.person_id, p.treated, p.start, p.time, p.event) for p in people],
    )
    if len(people) >= 2 and not findings:
        findings += _covariates(opened, db, found, people)
        findings += _values(opened, db, found, people)
    return findings


def _cohorts(opened: OmopDatabase, db: Database) -> tuple[CohortTable, CohortTable]:
    """Make the cohorts of both drugs and of the outcome."""

    def concept(of: int) -> ConceptSet:
        return ConceptSet((of,), descendants=db.descendants)

    drugs = drug_era_cohorts(opened, {1: concept(TARGET), 2: concept(COMPARATOR)})
    return drugs, condition_cohorts(opened, {3: concept(OUTCOME)})


def _values(
    opened: OmopDatabase, db: Database, entries: pd.DataFrame, people: list[reference.Person]
) -> list[str]:
    if not db.tables.get("measurement"):
        return []
    entries = entries.reset_index(drop=True)
    found = extract_features(opened, entries, FeatureRules(analyses=(LAST_VALUES,)))
    ids = entries["person_id"].to_numpy()
    ours = [
        (int(covariate), int(ids[row]), float(value))
        for j, covariate in enumerate(found.columns["covariate_id"])
        for row, value in zip(
            found.rows[found.indptr[j] : found.indptr[j + 1]],
            found.values[found.indptr[j] : found.indptr[j + 1]],
            strict=True,
        )
    ]
    expected = [
        (concept * 1_000_000 + unit % 1000 * 1000 + LAST_VALUES, person, float(np.float32(value)))
        for (concept, unit), values in reference.values_of(db, people, 365).items()
        for person, value in values.items()
    ]
    return [f"values: {text}" for text in _differences(sorted(ours), sorted(expected))]


def _covariates(
    opened: OmopDatabase, db: Database, entries: pd.DataFrame, people: list[reference.Person]
) -> list[str]:
    """Compare the 0/1 covariates of concepts recorded in the year before the start."""
    expected = reference.covariates_of(db, people, 365)
    tables = opened.tables
    analyses = tuple(a for a in CONCEPTS if (ANALYSES[a].table or "person") in tables)
    rules = FeatureRules(analyses, exclude=(TARGET, COMPARATOR), descendants=db.descendants)
    columns = extract_features(opened, entries.reset_index(drop=True), rules).columns
    ours = {
        (ANALYSES[int(a)].domain.lower(), int(c)): int(n)
        for a, c, n in columns[["analysis_id", "concept_id", "people"]].itertuples(index=False)
    }
    return _differences(sorted(ours.items()), sorted((k, len(w)) for k, w in expected.items()))


def _population(
    opened: OmopDatabase, db: Database, washout: int, risk_days: int | None
) -> list[str]:
    drugs, outcomes = _cohorts(opened, db)
    rules = ComparisonRules(both="keep first", washout_days=washout, common_period=False)
    comparison = compare_cohorts(opened, drugs, 1, 2, rules)
    days = 365 if risk_days is None else risk_days
    at_risk = TimeAtRisk(start=0, end=days, end_anchor="cohort start", look_back=99_999)
    found = study_population(comparison, outcomes, 3, at_risk).people
    return _differences(
        sorted(
            (int(p), int(a), pd.Timestamp(s).date(), int(t), int(e))
            for p, a, s, t, e in found[
                ["person_id", "treated", "start", "time", "event"]
            ].itertuples(index=False)
        ),
        sorted(reference.population(db, washout, days)),
    )


def _differences(ours: list, expected: list) -> list[str]:
    findings = [f"{len(ours)} entries, not {len(expected)}"] if len(ours) != len(expected) else []
    only_ours = [x for x in ours if x not in expected]
    only_theirs = [x for x in expected if x not in ours]
    if only_ours or only_theirs:
        findings.append(f"found {only_ours[:2]} where {only_theirs[:2]} is expected")
    return findings
