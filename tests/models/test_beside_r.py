"""Estimates against those of R's Cyclops 3.7.0.

They are stored by ``python -m benchmarks.beside_r store tests/models/cyclops_results.json``.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from benchmarks.beside_r.cyclops_comparison import compare_with_cyclops
from benchmarks.beside_r.cyclops_problems import CONDITIONAL, cyclops_problem, folds_of
from benchmarks.beside_r.drawn_study import draw_settings
from benchmarks.beside_r.r_programs import RAbsent, r_versions
from benchmarks.random_problems.inputs import arguments, coefficients, estimator

STORED = json.loads((Path(__file__).parent / "cyclops_results.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "stored", STORED, ids=lambda s: f"{cyclops_problem(s['seed']).family}-{s['seed']}"
)
def test_coefficients_are_those_of_cyclops(stored):
    problem = cyclops_problem(stored["seed"])
    model = estimator(problem).fit(**arguments(problem))
    found, wanted = coefficients(problem, model), np.array(stored["coefficients"])
    # Cyclops stops a little before the optimum, in units of each column.
    spread = np.append(1.0, problem.X.std(axis=0))[-len(found) :]
    np.testing.assert_allclose(found * spread, wanted * spread, atol=2e-3)
    if problem.family not in ("linear", "poisson"):  # whose constants Cyclops leaves out
        assert model.log_likelihood_ == pytest.approx(stored["log_likelihood"], rel=1e-4, abs=1e-4)


def test_problems_for_cyclops_have_what_it_has():
    for seed in range(60):
        problem = cyclops_problem(seed)
        assert "entry" not in problem.data
        assert problem.offset is None
        assert problem.prior in ("none", "laplace", "normal")
        if problem.family in CONDITIONAL:
            for values in (folds_of(problem), problem.weights):
                if values is not None:
                    assert all(
                        np.ptp(values[problem.strata == s]) == 0 for s in set(problem.strata)
                    )


def test_settings_of_a_study_are_drawn_from_the_seed():
    assert draw_settings(3) == draw_settings(3)
    assert draw_settings(3) != draw_settings(4)


def test_without_r_the_message_says_what_is_missing(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RAbsent, match="R is not installed"):
        r_versions("Cyclops")


def test_no_problem_differs_from_cyclops():
    try:
        r_versions("Cyclops")
    except RAbsent as absent:
        pytest.skip(str(absent))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not [r.words for r in compare_with_cyclops(range(8)) if r.verdict == "DIFFERENT"]
