"""Sequences of trials of a table with losses equal those of R, and separated models are refused."""

from dataclasses import replace

import pandas as pd
import pytest
from tests.designs.person_time_examples import ROLES

from designs.conftest import PUBLISHED
from steropes import SeparationError
from steropes.designs.target_trials import sequential_trials
from steropes.designs.target_trials.person_time import read_person_time
from steropes.designs.target_trials.sequential_trial_estimates import Estimates, coefficients
from steropes.designs.target_trials.sequential_trial_rows import (
    start_trials,
)
from steropes.designs.target_trials.sequential_trials import SequenceSettings


@pytest.fixture(scope="module")
def censored():
    return pd.read_csv(PUBLISHED / "data_censored.csv.gz")


LOSSES = {
    "eligible": "eligible", "censored": "censored", "covariates": ["x2"],
    "censoring_weights": (["x2"], ["x2", "x1"]), "pool_censoring": "numerator",
}  # fmt: skip


def test_censoring_weights_have_the_numbers_of_trialemulation(censored):
    """Nobody has the outcome in trials from 2 on, whose hazards R's glm drives towards zero."""
    settings = SequenceSettings(
        "intention-to-treat", None, LOSSES["censoring_weights"], "numerator", 0.99, None,
        "logistic", None, None, 2, 2, 0, "all", 0, 0.95, 0, ("x2",),
    )  # fmt: skip
    rows = read_person_time(
        censored, **ROLES, eligible="eligible", censored="censored", covariates=["x2", "x1"],
        measured={},
    )  # fmt: skip
    trials = start_trials(rows, "intention-to-treat", None, None)
    weights = settings.weights(rows, trials)
    assert trials.length.sum() == 1_558
    early = trials.trial <= 1
    some = replace(
        trials,
        **{k: getattr(trials, k)[early] for k in ("start", "end", "event", "deviated")},
    )
    estimates = Estimates(settings, some, weights.rows(early))
    risk, _ = estimates.risks(coefficients(estimates.fit()), False)
    survival = -(risk[0] - risk[1])[10] * early.mean()
    assert survival == pytest.approx(-0.15315301, rel=1e-6)


def test_separated_models_are_refused_by_name(censored):
    with pytest.raises(SeparationError, match="has the outcome"):
        sequential_trials(censored.assign(outcome=0), **ROLES)
    with pytest.raises(SeparationError, match="model of the outcome has no finite maximum"):
        sequential_trials(censored, **ROLES, **LOSSES)
    with pytest.raises(SeparationError, match="no finite"):
        sequential_trials(
            censored, **ROLES, eligible="eligible", covariates=["age"], effect="per-protocol",
            treatment_weights=(["age"], ["age", "x1", "x3"]),
        )  # fmt: skip
