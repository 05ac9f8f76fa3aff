"""A simulated OMOP database of people who start a first drug for hypertension."""

from __future__ import annotations

import numpy as np
import pandas as pd

from steropes.designs.settings.validated_types import Whole
from steropes.errors import DataError
from steropes.studies._optional_packages import need
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.database.synthetic_database import (
    load_tables,
    poisson_records,
    simulated_vocabulary,
)

__all__ = ["hypertension_database"]

THIAZIDE, INHIBITOR = 974166, 1308216
HYPERTENSION, FAILURE, INFARCTION, COUGH = 316866, 316139, 312327, 254761
# Conditions before the start: concept, name, share, log odds of the thiazide, and log rate ratios
# of heart failure, infarction and cough.
CONDITIONS = (
    (201826, "Type 2 diabetes mellitus", 0.25, -0.8, 0.4, 0.5, 0.0),
    (313217, "Atrial fibrillation", 0.08, -0.4, 0.9, 0.2, 0.0),
    (255573, "Chronic obstructive lung disease", 0.10, 0.0, 0.3, 0.2, 0.7),
    (432867, "Hyperlipidemia", 0.40, -0.1, 0.1, 0.4, 0.0),
    (433736, "Obesity", 0.25, 0.2, 0.3, 0.2, 0.1),
    (193782, "End-stage renal disease", 0.03, -1.0, 0.8, 0.6, 0.0),
    (80180, "Osteoarthritis", 0.20, 0.3, 0.0, 0.0, 0.0),
    (255848, "Pneumonia", 0.05, 0.0, 0.4, 0.1, 0.5),
)
DRUGS = ((THIAZIDE, "hydrochlorothiazide"), (INHIBITOR, "lisinopril"))
NAMED = (
    (HYPERTENSION, "Hypertensive disorder"),
    (FAILURE, "Heart failure"),
    (INFARCTION, "Acute myocardial infarction"),
    (COUGH, "Cough"),
    *((row[0], row[1]) for row in CONDITIONS),
)
# Rates per year with the inhibitor and without any of these conditions.
RATES = {FAILURE: 0.02, INFARCTION: 0.01, COUGH: 0.10}
FIRST, DAYS = np.datetime64("2008-01-01"), 3652


def hypertension_database(
    people: int = 6000, seed: int = 1, failure_ratio: float = 0.8, cough_ratio: float = 0.65
) -> OmopDatabase:
    """Simulate new users of a thiazide or an ACE inhibitor in memory.

    Everyone is observed from 2008 to 2017, has hypertensive disorder (concept 316866) recorded in
    the year before, and starts hydrochlorothiazide (974166) or lisinopril (1308216) once. Age, sex
    and eight conditions determine the probability of each drug and raise the rates of heart failure
    (316139), acute myocardial infarction (312327) and cough (254761). During an era of the thiazide
    heart failure has ``failure_ratio`` times the rate. Cough has the same rate with both drugs up
    to day 10 and ``cough_ratio`` times the rate with the thiazide afterwards.

    Parameters
    ----------
    people : int, default 6000
        Number of people.
    seed : int, default 1
        Seed of the simulation; the same seed gives the same database.
    failure_ratio, cough_ratio : float, default 0.8 and 0.65
        True ratios of the hazards, thiazide against inhibitor.

    Returns
    -------
    OmopDatabase
        A database with the tables of the CDM v5.4 that studies need.

    Raises
    ------
    DataError
        ``people`` is not a positive whole number, ``seed`` is negative, or a ratio is not positive.

    References
    ----------
    The questions are those of chapters 3 to 5 of Yang (2023), dissertation, University of
    California, Los Angeles, where licensed data of real people are analysed.

    Examples
    --------
    >>> from steropes.studies.database import hypertension_database
    >>> db = hypertension_database(people=200)
    >>> db.concept_name(974166)
    'hydrochlorothiazide'
    """
    Whole(1).require("people", people)
    Whole(0).require("seed", seed)
    if not (failure_ratio > 0 and cough_ratio > 0):
        raise DataError("failure_ratio and cough_ratio must be positive")
    ratios = {FAILURE: failure_ratio, INFARCTION: 1.0, COUGH: cough_ratio}
    connection = need("duckdb").connect(":memory:")
    load_tables(connection, _tables(people, np.random.default_rng(seed), ratios))
    return OmopDatabase(connection)


def _tables(n: int, rng: np.random.Generator, ratios: dict[int, float]) -> dict[str, pd.DataFrame]:
    """Simulate the tables of the database."""
    age, male = rng.integers(30, 85, n), rng.random(n) < 0.47
    ill = np.column_stack([rng.random(n) < share for _, _, share, *_ in CONDITIONS])
    log_odds = ill @ [row[3] for row in CONDITIONS] + 0.01 * (age - 60) - 0.5 * male
    thiazide = rng.random(n) < 1 / (1 + np.exp(-log_odds))
    start = rng.integers(2 * 365, 7 * 365, n)
    end = start + 30 + np.minimum(rng.exponential(400, n).astype(int), 900)
    person = np.arange(1, n + 1)
    records = [_conditions(ill, start, rng), _dated(HYPERTENSION, start - rng.integers(0, 300, n))]
    for k, (outcome, rate) in enumerate(RATES.items()):
        effects = np.array([row[4:] for row in CONDITIONS], dtype=float)[:, k]
        yearly = rate * np.exp(ill @ effects + 0.03 * (age - 60) * (outcome != COUGH))
        change = start + (10 if outcome == COUGH else 0)  # when the rates begin to differ
        ratio = np.where(thiazide, ratios[outcome], 1.0)
        for lowest, highest, times in (
            (start + 1, np.minimum(change, end), 1.0),
            (change + 1, end, ratio),
            (end + 1, np.full(n, DAYS), 1.0),
        ):
            records.append(poisson_records(outcome, yearly * times, lowest, highest, rng))
    found = pd.concat(records, ignore_index=True).sort_values(["row", "day", "concept"])
    return {
        "person": pd.DataFrame(
            {
                "person_id": person,
                "gender_concept_id": np.where(male, 8507, 8532),
                "year_of_birth": 2012 - age,
            }
        ),
        "observation_period": pd.DataFrame(
            {
                "observation_period_id": person,
                "person_id": person,
                "observation_period_start_date": FIRST,
                "observation_period_end_date": FIRST + DAYS,
            }
        ),
        "drug_era": pd.DataFrame(
            {
                "drug_era_id": person,
                "person_id": person,
                "drug_concept_id": np.where(thiazide, THIAZIDE, INHIBITOR),
                "drug_era_start_date": FIRST + start,
                "drug_era_end_date": FIRST + end,
                "drug_exposure_count": 1,
                "gap_days": 0,
            }
        ),
        "condition_occurrence": pd.DataFrame(
            {
                "condition_occurrence_id": np.arange(len(found)),
                "person_id": found["row"].to_numpy() + 1,
                "condition_concept_id": found["concept"].to_numpy(),
                "condition_start_date": FIRST + found["day"].to_numpy(),
            }
        ),
        **simulated_vocabulary("Simulated", DRUGS, NAMED),
    }


def _conditions(ill: np.ndarray, start: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """Draw the days of the conditions in the year before the start."""
    row, kind = np.nonzero(ill)
    concept = np.array([c[0] for c in CONDITIONS])[kind]
    day = start[row] - rng.integers(1, 350, len(row))
    return pd.DataFrame({"row": row, "concept": concept, "day": day})


def _dated(concept: int, day: np.ndarray) -> pd.DataFrame:
    """Return one record of everyone."""
    return pd.DataFrame({"row": np.arange(len(day)), "concept": concept, "day": day})
