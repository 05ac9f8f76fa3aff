"""A small OMOP database of simulated people, for examples and first trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from steropes.designs.settings.validated_types import Whole
from steropes.designs.values.dates_and_ages import DAYS_PER_YEAR
from steropes.errors import DataError
from steropes.studies._optional_packages import need
from steropes.studies.database.omop import OmopDatabase

__all__ = ["load_tables", "poisson_records", "simulated_vocabulary", "synthetic_database"]

TARGET, COMPARATOR, OUTCOME = 1118084, 1124300, 192671
# The class of both drugs in the ATC classification: concept, name and code.
DRUG_CLASS = (21603933, "Non-steroidal anti-inflammatory drugs", "M01A")
FINDING = 441840  # The ancestor of all conditions.
# Risk factors: concept, name, prevalence, and log odds of the target drug and log rate ratio of
# the outcome.
RISK_FACTORS = (
    (80180, "Osteoarthritis", 0.35, 0.6, 0.0),
    (320128, "Essential hypertension", 0.40, -0.3, 0.3),
    (201826, "Type 2 diabetes mellitus", 0.20, 0.0, 0.2),
    (4027663, "Peptic ulcer", 0.15, 0.9, 0.8),
    (313217, "Atrial fibrillation", 0.10, -0.4, 0.4),
    (255573, "Chronic obstructive lung disease", 0.12, 0.0, 0.0),
    (4182210, "Dementia", 0.08, -0.5, 0.2),
)
# Conditions that neither drug causes, with rates per year.
CONTROLS = (
    (81151, "Sprain of ankle", 0.05),
    (78272, "Sprain of wrist", 0.04),
    (4113008, "Laceration of hand", 0.06),
    (4155034, "Laceration of forearm", 0.03),
)
FIRST, LAST = np.datetime64("2005-01-01"), np.datetime64("2014-12-31")
DAYS = int((LAST - FIRST).astype(int))


def synthetic_database(people: int = 5000, seed: int = 1, rate_ratio: float = 1.5) -> OmopDatabase:
    """Simulate a small OMOP database in memory.

    Every person is observed from 2005 to 2014 and starts celecoxib (concept 1118084) or diclofenac
    (1124300) once between 2008 and 2011. Seven conditions in the year before, age and sex
    determine the probability of each drug, and some of the conditions raise the rate of
    gastrointestinal hemorrhage (192671), which celecoxib multiplies by ``rate_ratio`` while it
    is taken. Four injuries (81151, 78272, 4113008, 4155034) are unrelated to the drugs, for use as
    negative controls. The concepts are those of `DEMO`.

    ``rate_ratio`` is the truth of a study whose time at risk lies within the eras, as with
    ``risk_days=180``. Up to the end of observation, which is the default of studies, the hazard
    ratio is nearer to one. With 5,000 people the matched arms differ by 0.03 to 0.06 standard
    deviations at most (seeds 1 to 6); with 1,000, differences of 0.1 are chance and often fail the
    diagnostic of balance.

    Parameters
    ----------
    people : int, default 5000
        Number of people.
    seed : int, default 1
        Seed of the simulation; the same seed gives the same database.
    rate_ratio : float, default 1.5
        True rate ratio of the outcome during eras of celecoxib.

    Returns
    -------
    OmopDatabase
        A database with the tables of the CDM v5.4 that studies need, and with a cohort table of
        the eras of celecoxib (cohort 1) and diclofenac (cohort 2). The vocabulary has these
        concepts, the class of both drugs (21603933) and the ancestor of all conditions (441840).

    Raises
    ------
    DataError
        ``people`` is not a positive whole number, ``seed`` is negative, or ``rate_ratio`` is not
        positive.

    See Also
    --------
    demo_database : A larger synthetic database, Eunomia's "GiBleed".

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> db = synthetic_database(people=200)
    >>> db.concept_name(1118084)
    'celecoxib'
    >>> db.rows("SELECT count(*) FROM person")
    [(200,)]
    """
    Whole(1).require("people", people)
    Whole(0).require("seed", seed)
    if not rate_ratio > 0:
        raise DataError(f"rate_ratio must be positive, not {rate_ratio!r}")
    duckdb = need("duckdb")
    connection = duckdb.connect(":memory:")
    load_tables(connection, _tables(people, np.random.default_rng(seed), rate_ratio))
    return OmopDatabase(connection)


def load_tables(connection: Any, tables: Mapping[str, pd.DataFrame]) -> None:
    """Create tables in an open DuckDB connection, with dates in columns of that name."""
    for name, table in tables.items():
        connection.register("simulated", table)
        dates = [c for c in table if str(c).endswith("_date")]
        chosen = "".join(f", {c}::DATE AS {c}" for c in dates)
        others = f"* EXCLUDE ({', '.join(dates)})" if dates else "*"
        connection.execute(f"CREATE TABLE {name} AS SELECT {others}{chosen} FROM simulated")
        connection.unregister("simulated")


def _tables(n: int, rng: np.random.Generator, rate_ratio: float) -> dict[str, pd.DataFrame]:
    """Simulate the tables of the database."""
    age = rng.integers(35, 85, n)
    male = rng.random(n) < 0.45
    ill = np.column_stack([rng.random(n) < share for _, _, share, *_ in RISK_FACTORS])
    log_odds = ill @ [row[3] for row in RISK_FACTORS] + 0.02 * (age - 60) - 0.3 * male - 0.2
    target = rng.random(n) < 1 / (1 + np.exp(-log_odds))
    start = rng.integers(3 * 365, 7 * 365, n)
    end = start + rng.integers(180, 1000, n)
    yearly = 0.03 * np.exp(ill @ [row[4] for row in RISK_FACTORS] + 0.02 * (age - 60))
    on_drug = yearly * np.where(target, rate_ratio, 1.0)
    person = np.arange(1, n + 1)
    people = pd.DataFrame(
        {
            "person_id": person,
            "gender_concept_id": np.where(male, 8507, 8532),
            "year_of_birth": 2010 - age,
        }
    )
    observed = pd.DataFrame(
        {
            "observation_period_id": person,
            "person_id": person,
            "observation_period_start_date": FIRST,
            "observation_period_end_date": LAST,
        }
    )
    return {
        "person": people,
        "observation_period": observed,
        **_drugs(person, target, FIRST + start, FIRST + end),
        **_conditions(ill, start, end, yearly, on_drug, rng),
        **simulated_vocabulary(
            "Synthetic",
            [(TARGET, "celecoxib"), (COMPARATOR, "diclofenac")],
            [(OUTCOME, "Gastrointestinal hemorrhage")]
            + [(row[0], row[1]) for row in (*RISK_FACTORS, *CONTROLS)],
            DRUG_CLASS,
        ),
    }


def _drugs(
    person: np.ndarray, target: np.ndarray, start: np.ndarray, end: np.ndarray
) -> dict[str, pd.DataFrame]:
    """Return the era of each person, as a drug era and in the cohort of the drug."""
    era = pd.DataFrame(
        {
            "drug_era_id": person,
            "person_id": person,
            "drug_concept_id": np.where(target, TARGET, COMPARATOR),
            "drug_era_start_date": start,
            "drug_era_end_date": end,
            "drug_exposure_count": 1,
            "gap_days": 0,
        }
    )
    cohort = pd.DataFrame(
        {
            "cohort_definition_id": np.where(target, 1, 2),
            "subject_id": person,
            "cohort_start_date": start,
            "cohort_end_date": end,
        }
    )
    return {"drug_era": era, "cohort": cohort}


def _conditions(
    ill: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    yearly: np.ndarray,
    on_drug: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, pd.DataFrame]:
    """Draw the outcome, the injuries and the risk factors, which begin before the drug."""
    n = len(start)
    zero, last = np.zeros(n, int), np.full(n, DAYS)
    records = [
        poisson_records(OUTCOME, yearly, zero, start, rng),
        poisson_records(OUTCOME, on_drug, start + 1, end, rng),
        poisson_records(OUTCOME, yearly, end + 1, last, rng),
    ]
    for concept, _, rate in CONTROLS:
        records.append(poisson_records(concept, np.full(n, rate), zero, last, rng))
    for j, (concept, *_) in enumerate(RISK_FACTORS):
        row = np.flatnonzero(ill[:, j])
        day = start[row] - rng.integers(1, 300, len(row))
        records.append(pd.DataFrame({"row": row, "concept": concept, "day": day}))
    found = pd.concat(records, ignore_index=True).sort_values(["row", "day", "concept"])
    person, on = found["row"].to_numpy() + 1, FIRST + found["day"].to_numpy()
    concept = found["concept"].to_numpy()
    occurrence = pd.DataFrame(
        {
            "condition_occurrence_id": np.arange(len(on)),
            "person_id": person,
            "condition_concept_id": concept,
            "condition_start_date": on,
        }
    )
    era = pd.DataFrame(
        {
            "condition_era_id": np.arange(len(on)),
            "person_id": person,
            "condition_concept_id": concept,
            "condition_era_start_date": on,
            "condition_era_end_date": on,
        }
    )
    return {"condition_occurrence": occurrence, "condition_era": era}


def poisson_records(
    concept: int, yearly: np.ndarray, first: np.ndarray, last: np.ndarray, rng: np.random.Generator
) -> pd.DataFrame:
    """Draw records of Poisson processes with yearly rates on the days first … last."""
    days = np.maximum(last - first + 1, 0)
    row = np.repeat(np.arange(len(first)), rng.poisson(yearly * days / DAYS_PER_YEAR))
    day = rng.integers(first[row], last[row] + 1)
    return pd.DataFrame({"row": row, "concept": concept, "day": day})


def simulated_vocabulary(
    source: str,
    drugs: Sequence[tuple[int, str]],
    conditions: Sequence[tuple[int, str]],
    drug_class: tuple[int, str, str] | None = None,
) -> dict[str, pd.DataFrame]:
    """Return the tables of concepts, with links to themselves and to their common ancestors.

    Parameters
    ----------
    source : str
        Name of the database.
    drugs, conditions : sequence of (int, str)
        Concepts with their names. Conditions descend from `FINDING`.
    drug_class : (int, str, str), optional
        Concept, name and ATC code of the class of all drugs.
    """
    rows: list[tuple[Any, ...]] = [(c, name, "Drug", "RxNorm", "Ingredient") for c, name in drugs]
    links: list[tuple[int, int, int]] = []
    codes: dict[int, str] = {}
    if drug_class is not None:
        number, name, codes[number] = drug_class
        rows.append((number, name, "Drug", "ATC", "ATC 3rd"))
        links += [(number, c, 1) for c, _ in drugs]
    links += [(FINDING, c, 4) for c, _ in conditions]
    rows.append((FINDING, "Clinical finding", "Condition", "SNOMED", "Clinical Finding"))
    rows += [(c, name, "Condition", "SNOMED", "Disorder") for c, name in conditions]
    rows += [
        (c, name, "Gender", "Gender", "Gender") for c, name in ((8507, "MALE"), (8532, "FEMALE"))
    ]
    columns = ["concept_id", "concept_name", "domain_id", "vocabulary_id", "concept_class_id"]
    concept = pd.DataFrame(rows, columns=columns)
    ids = concept["concept_id"]
    names = ["ancestor_concept_id", "descendant_concept_id", "min_levels_of_separation"]
    ancestor = pd.DataFrame([*((c, c, 0) for c in ids), *links], columns=names)
    return {
        "concept": concept.assign(
            concept_code=[codes.get(c, str(c)) for c in ids],
            standard_concept="S",
            invalid_reason=pd.Series(pd.NA, ids.index, dtype="string"),
        ),
        "concept_ancestor": ancestor.assign(max_levels_of_separation=ancestor[names[2]]),
        "cdm_source": pd.DataFrame({"cdm_source_name": [source], "cdm_version": ["5.4"]}),
    }
