"""OMOP databases like those of insurance claims, with known effects, of millions of people.

    python -m benchmarks.omop --people 1000000 --output claims.duckdb [--seed 1]

People have topics of ill health, from which most of their conditions, drugs and procedures are
drawn, so that records are correlated and have a long tail. Ten conditions decide with chance which
drug of a pair a person starts, raise the rates of outcomes, and shorten life; nothing else does
both. The hazard ratio of the first drug of each pair is 1.5 for `HARMED` and 1 for `UNHARMED` and
the `CONTROLS`, from its start until the end of observation. `SEASONAL` has a rate ratio of 1.5
during eras of the first drug and a season. Death ends observation and is a cohort (`DEATH`).

The same version of NumPy makes the same database from the same seed.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# Pairs of drugs (target, comparator) and the share of people who start one of them. The cohort
# table has the eras of these drugs under the numbers of the drugs, and deaths under `DEATH`.
PAIRS = ((101, 102, 0.68), (103, 104, 0.10), (105, 106, 0.09))
DEATH = 900
HARMED, UNHARMED, SEASONAL = 201, 202, 203
CONTROLS = tuple(range(211, 251))
HAZARD_RATIO = 1.5
# Rates per year of the outcomes and of death at age 60 without a risk factor.
RATES = {HARMED: 0.010, UNHARMED: 0.012, **{c: 0.002 * (1 + c % 7) for c in CONTROLS}}
SEASONAL_RATE, DEATH_RATE = 0.004, 0.004

RISKS = tuple(range(301, 311))
# Prevalence of each risk factor, and its effects on the log odds of the target drug, on the log
# rates of outcomes and on the log hazard of death.
PREVALENCE = np.array([0.35, 0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.08, 0.05, 0.05])
ON_DRUG = np.array([0.6, -0.4, 0.0, 0.9, -0.5, 0.5, -0.7, 0.0, 0.4, -0.4])
ON_OUTCOME = np.array([0.2, 0.3, 0.2, 0.6, 0.4, 0.0, 0.3, 0.5, 0.0, 0.2])
ON_DEATH = np.array([0.1, 0.2, 0.3, 0.2, 0.5, 0.6, 0.4, 0.8, 0.3, 0.0])

TOPICS = 8
# Table, first concept, concepts of each topic, and mean records a person.
BACKGROUND = {
    "condition_occurrence": (100_000, 500, 16.0),
    "drug_era": (200_000, 80, 6.0),
    "procedure_occurrence": (300_000, 200, 7.0),
    "measurement": (400_000, 15, 4.0),
    "observation": (500_000, 20, 2.0),
}
FINDING, ATC = 441840, 600_000  # The ancestor of all conditions, and the first class of drugs.
CONDITION_GROUP = 700_000
CHUNK = 250_000  # people at a time
FIRST_DAY, DAYS = "2010-01-01", 3652

TABLES = {
    "person": "person_id BIGINT, gender_concept_id INT, year_of_birth INT, race_concept_id INT, "
    "ethnicity_concept_id INT",
    "observation_period": "observation_period_id BIGINT, person_id BIGINT, "
    "observation_period_start_date DATE, observation_period_end_date DATE",
    "death": "person_id BIGINT, death_date DATE",
    "condition_occurrence": "person_id BIGINT, condition_concept_id INT, condition_start_date DATE",
    "drug_era": "person_id BIGINT, drug_concept_id INT, drug_era_start_date DATE, "
    "drug_era_end_date DATE",
    "procedure_occurrence": "person_id BIGINT, procedure_concept_id INT, procedure_date DATE",
    "measurement": "person_id BIGINT, measurement_concept_id INT, measurement_date DATE, "
    "value_as_number DOUBLE, range_low DOUBLE, range_high DOUBLE, value_as_concept_id INT",
    "observation": "person_id BIGINT, observation_concept_id INT, observation_date DATE, "
    "value_as_concept_id INT",
    "cohort": "cohort_definition_id INT, subject_id BIGINT, cohort_start_date DATE, "
    "cohort_end_date DATE",
    "cdm_source": "cdm_source_name VARCHAR, cdm_version VARCHAR",
    "concept": "concept_id INT, concept_name VARCHAR, domain_id VARCHAR, vocabulary_id VARCHAR, "
    "concept_class_id VARCHAR, standard_concept VARCHAR, concept_code VARCHAR, "
    "invalid_reason VARCHAR",
    "concept_ancestor": "ancestor_concept_id INT, descendant_concept_id INT, "
    "min_levels_of_separation INT, max_levels_of_separation INT",
}  # fmt: skip


def make_database(path: Path, people: int, seed: int = 1) -> None:
    """Write the database to a new file."""
    import duckdb

    with duckdb.connect(str(path)) as db:
        db.execute("SET enable_progress_bar = false")
        for name, columns in TABLES.items():
            db.execute(f"CREATE TABLE {name} ({columns})")
        for number, first in enumerate(range(0, people, CHUNK)):
            chunk = _Chunk(first, min(CHUNK, people - first), np.random.default_rng([seed, number]))
            for name, table in chunk.tables():
                _insert(db, name, table)
        for name, table in _vocabulary():
            _insert(db, name, table)
        db.execute("INSERT INTO cdm_source VALUES ('Simulated claims', '5.4')")
        db.execute(
            "CREATE TABLE condition_era AS SELECT person_id, condition_concept_id, "
            "condition_start_date AS condition_era_start_date, "
            "condition_start_date + (hash(person_id, condition_start_date) % 60)::INT "
            "AS condition_era_end_date FROM condition_occurrence"
        )


def _insert(db: Any, name: str, table: dict[str, Any]) -> None:
    """Insert columns into a table; days become dates."""
    frame = pd.DataFrame(table)
    chosen = ", ".join(
        f"DATE '{FIRST_DAY}' + {c}::INT AS {c}" if c.endswith("_date") else str(c) for c in frame
    )
    db.register("made", frame)
    db.execute(f"INSERT INTO {name} BY NAME SELECT {chosen} FROM made")
    db.unregister("made")


class _Chunk:
    """Some people, with their observation, risk factors, drugs and rates of outcomes.

    All times are days since `FIRST_DAY`; ``start`` and ``end`` are those of observation.
    """

    def __init__(self, first: int, n: int, rng: np.random.Generator) -> None:
        self.rng, self.n = rng, n
        self.person = np.arange(first + 1, first + n + 1)
        self.age = rng.integers(30, 90, n)  # in 2015
        self.male = rng.random(n) < 0.45
        older = (self.age - 60) / 10
        topics = np.exp(rng.standard_normal((n, TOPICS), dtype=np.float32))
        self.frailty = topics.sum(axis=1) / (TOPICS * np.exp(0.5)) * np.exp(0.1 * older)
        self.topics = np.cumsum(topics, axis=1) / topics.sum(axis=1)[:, None]
        odds = PREVALENCE / (1 - PREVALENCE) * np.exp(0.2 * older)[:, None]
        odds *= np.sqrt(topics[:, np.arange(len(RISKS)) % TOPICS])
        self.ill = rng.random((n, len(RISKS))) < odds / (1 + odds)
        self.rate = np.exp(self.ill @ ON_OUTCOME + 0.2 * older)
        late = rng.random(n) < 0.4
        self.start = np.where(late, rng.integers(0, 1461, n), 0)
        self.end = np.minimum(DAYS - 1, self.start + 400 + rng.exponential(365.25 * 8, n))
        hazard = DEATH_RATE / 365.25 * np.exp(self.ill @ ON_DEATH + 0.8 * older)
        death = self.start + 30 + rng.exponential(1 / hazard)
        self.died = death <= self.end
        self.end = np.minimum(self.end, death).astype(int)
        self._choose_drugs(older)

    def _choose_drugs(self, older: NDArray) -> None:
        """Draw the pair of drugs, the drug of the pair, and the day on which it starts."""
        rng, n = self.rng, self.n
        bounds = np.cumsum([share for *_, share in PAIRS])
        pair = np.searchsorted(bounds, rng.random(n), side="right")
        log_odds = self.ill @ ON_DRUG + 0.1 * older - 0.2 * self.male - 0.3
        target = rng.random(n) < 1 / (1 + np.exp(-log_odds))
        drugs = np.array([[t, c] for t, c, _ in PAIRS] + [[0, 0]])
        self.drug = np.where(target, drugs[pair, 0], drugs[pair, 1])
        self.target = target & (self.drug > 0)
        earliest = np.minimum(self.start + 366, self.end)
        self.index = rng.integers(earliest, self.end + 1)
        self.stop = np.minimum(self.index + rng.gamma(2, 100, n).astype(int), self.end)

    def tables(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the rows of each table."""
        yield (
            "person",
            {
                "person_id": self.person,
                "gender_concept_id": np.where(self.male, 8507, 8532),
                "year_of_birth": 2015 - self.age,
                "race_concept_id": 0,
                "ethnicity_concept_id": 0,
            },
        )
        yield (
            "observation_period",
            {
                "observation_period_id": self.person,
                "person_id": self.person,
                "observation_period_start_date": self.start,
                "observation_period_end_date": self.end,
            },
        )
        yield "death", {"person_id": self.person[self.died], "death_date": self.end[self.died]}
        yield "cohort", _cohort(DEATH, self.person, self.end, self.end, self.died)
        user = self.drug > 0
        yield "cohort", _cohort(self.drug, self.person, self.index, self.stop, user)
        yield from self._study_drugs(user)
        yield "condition_occurrence", self._occurrences(*self._risk_factors())
        yield "condition_occurrence", self._occurrences(*self._outcomes())
        yield "condition_occurrence", self._occurrences(*self._seasonal())
        for table, (first, size, mean) in BACKGROUND.items():
            yield table, self._background(table, first, size, mean)

    def _study_drugs(self, user: NDArray) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the first era of each user, and a second one of some."""
        rng = self.rng
        self.again = user & (rng.random(self.n) < 0.4)
        self.second = self.stop + 60 + rng.integers(0, 400, self.n)
        self.again &= self.second < self.end
        self.second_stop = np.minimum(self.second + rng.gamma(2, 60, self.n).astype(int), self.end)
        for first, last, chosen in (
            (self.index, self.stop, user),
            (self.second, self.second_stop, self.again),
        ):
            yield (
                "drug_era",
                {
                    "person_id": self.person[chosen],
                    "drug_concept_id": self.drug[chosen],
                    "drug_era_start_date": first[chosen],
                    "drug_era_end_date": last[chosen],
                },
            )

    def _occurrences(self, row: NDArray, concept: Any, day: NDArray) -> dict[str, Any]:
        """Return rows of the table of conditions."""
        return {
            "person_id": self.person[row],
            "condition_concept_id": concept,
            "condition_start_date": day,
        }

    def _risk_factors(self) -> tuple[NDArray, NDArray, NDArray]:
        """Record the risk factors in the year before the drug or, without one, in the first."""
        row, risk = np.nonzero(self.ill)
        first = np.where(self.drug > 0, np.maximum(self.index - 300, self.start), self.start)[row]
        last = np.where(self.drug > 0, self.index, self.start + 30)[row]
        day = self.rng.integers(first, np.maximum(last, first + 1))
        return row, np.array(RISKS)[risk], day

    def _outcomes(self) -> tuple[NDArray, NDArray, NDArray]:
        """Draw the outcomes and negative controls by Poisson processes."""
        found = []
        for concept, rate in RATES.items():
            ratio = HAZARD_RATIO if concept == HARMED else 1.0
            before, after = self.index - self.start, self.end - self.index
            total = before + after * np.where(self.target, ratio, 1.0)
            row = np.repeat(np.arange(self.n), self.rng.poisson(self.rate * rate / 365.25 * total))
            # Time on the scale of the cumulative hazard, and back.
            at = self.rng.random(len(row)) * total[row]
            past = np.maximum(at - before[row], 0) / np.where(self.target[row], ratio, 1.0)
            day = self.start[row] + np.minimum(at, before[row]) + past + (past > 0)
            found.append((row, np.full(len(row), concept), np.minimum(day, self.end[row])))
        return tuple(np.concatenate(x).astype(int) for x in zip(*found, strict=True))

    def _seasonal(self) -> tuple[NDArray, int, NDArray]:
        """Draw the outcome of a case series, with a season and a rate ratio during eras."""
        daily = self.rate * SEASONAL_RATE / 365.25
        more = daily * (HAZARD_RATIO - 1)
        spans = (
            (daily, self.start, self.end),
            (more * self.target, self.index, self.stop),
            (more * (self.target & self.again), self.second, self.second_stop),
        )
        rows, days = [], []
        for rate, first, last in spans:
            mean = rate * np.maximum(last - first + 1, 0)
            row = np.repeat(np.arange(self.n), self.rng.poisson(mean))
            day = self.rng.integers(first[row], last[row] + 1)
            kept = self.rng.random(len(row)) < (1 + 0.5 * np.cos(2 * np.pi * day / 365.25)) / 1.5
            rows.append(row[kept])
            days.append(day[kept])
        return np.concatenate(rows), SEASONAL, np.concatenate(days)

    def _background(self, table: str, first: int, size: int, mean: float) -> dict[str, Any]:
        """Draw records of concepts of the topics of each person, few of them frequent."""
        rng = self.rng
        row = np.repeat(np.arange(self.n), rng.poisson(mean * self.frailty))
        topic = (rng.random(len(row), dtype=np.float32)[:, None] > self.topics[row]).sum(axis=1)
        rank = (size * rng.random(len(row)) ** 4).astype(int)
        concept = first + np.minimum(topic, TOPICS - 1) * size + rank
        length = self.end - self.start + 1
        day = self.start[row] + (rng.random(len(row)) * length[row]).astype(int)
        person = self.person[row]
        if table == "condition_occurrence":
            return self._occurrences(row, concept, day)
        if table == "drug_era":
            stop = np.minimum(day + rng.gamma(1.5, 60, len(row)).astype(int), self.end[row])
            return {
                "person_id": person,
                "drug_concept_id": concept,
                "drug_era_start_date": day,
                "drug_era_end_date": stop,
            }
        stem = table.removesuffix("_occurrence")
        found = {"person_id": person, f"{stem}_concept_id": concept, f"{stem}_date": day}
        if table == "measurement":
            value = np.round(100 + 20 * rng.normal(size=len(row)), 1)
            found |= {"value_as_number": value, "range_low": 70.0, "range_high": 130.0}
        return found


def _cohort(
    number: Any, person: NDArray, first: NDArray, last: NDArray, chosen: NDArray
) -> dict[str, Any]:
    """Return rows of the cohort table."""
    return {
        "cohort_definition_id": number if np.isscalar(number) else number[chosen],
        "subject_id": person[chosen],
        "cohort_start_date": first[chosen],
        "cohort_end_date": last[chosen],
    }


def _vocabulary() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield concepts with two levels of groups above conditions and drugs."""
    rows = [(c, f"study drug {c}", "Drug", "RxNorm", "Ingredient", str(c))
            for pair in PAIRS for c in pair[:2]]  # fmt: skip
    diseases = [HARMED, UNHARMED, SEASONAL, *CONTROLS, *RISKS]
    rows += [(c, f"disease {c}", "Condition", "SNOMED", "Disorder", str(c)) for c in diseases]
    rows += [(c, name, "Gender", "Gender", "Gender", name[0])
             for c, name in ((8507, "MALE"), (8532, "FEMALE"))]  # fmt: skip
    rows += [(FINDING, "Clinical finding", "Condition", "SNOMED", "Clinical Finding", "404684003")]
    links = [(c, c, 0) for c, *_ in rows]
    links += [(FINDING, c, 3) for c in diseases]
    links += [(ATC, c, 3) for pair in PAIRS for c in pair[:2]]
    for table, (first, size, _) in BACKGROUND.items():
        domain = table.split("_")[0].capitalize()
        kind = ("RxNorm", "Ingredient") if domain == "Drug" else ("SNOMED", domain)
        own = range(first, first + TOPICS * size)
        rows += [(c, f"{domain.lower()} {c}", domain, *kind, str(c)) for c in own]
        links += [(c, c, 0) for c in own]
        if domain not in ("Condition", "Drug"):
            continue
        base = CONDITION_GROUP if domain == "Condition" else ATC + 1
        kind = ("SNOMED", "Disorder") if domain == "Condition" else ("ATC", "ATC")
        groups = TOPICS * size // 10
        for g in range(groups + TOPICS):  # groups of ten concepts, and the topics
            name = f"{domain.lower()} group {g}" if g < groups else f"topic {g - groups}"
            rows.append((base + g, name, domain, *kind, f"{g:04d}"[:4] + "A" * (g < groups)))
            links.append((base + g, base + g, 0))
        for k in range(TOPICS * size):
            group, topic = base + k // 10, base + groups + k // size
            links += [(group, first + k, 1), (topic, first + k, 2)]
            if k % 10 == 0:
                links.append((topic, group, 1))
        if domain == "Condition":
            links += [(FINDING, first + k, 3) for k in range(TOPICS * size)]
            links += [(FINDING, base + g, 2) for g in range(groups + TOPICS)]
    rows.append((ATC, "all study drugs", "Drug", "ATC", "ATC", "Z"))
    links.append((ATC, ATC, 0))
    columns = ["concept_id", "concept_name", "domain_id", "vocabulary_id", "concept_class_id",
               "concept_code"]  # fmt: skip
    concepts = pd.DataFrame(rows, columns=columns).assign(standard_concept="S")
    names = ["ancestor_concept_id", "descendant_concept_id", "min_levels_of_separation"]
    ancestors = pd.DataFrame(links, columns=names)
    yield "concept", {str(c): concepts[c] for c in concepts}
    ancestors["max_levels_of_separation"] = ancestors[names[2]]
    yield "concept_ancestor", {str(c): ancestors[c] for c in ancestors}


def main(arguments: list[str] | None = None) -> None:
    """Make a database and print its size and its cost."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--output", type=Path, required=True, help="a DuckDB file, made anew")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    given.output.unlink(missing_ok=True)
    began = time.perf_counter()
    make_database(given.output, given.people, given.seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{given.people:,} people, {given.output.stat().st_size / 2**20:,.0f} MiB: "
        f"{time.perf_counter() - began:.0f} s, {time.process_time():.0f} s of CPU, {peak:.1f} GiB"
    )


if __name__ == "__main__":
    main()
