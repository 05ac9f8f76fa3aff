"""Random problems of all families against dense NumPy (`benchmarks.random_problems`)."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.random_problems.check import check
from benchmarks.random_problems.draw import FAMILIES, draw
from benchmarks.random_problems.expand import dense_problem
from benchmarks.random_problems.second import optimise, separated, undetermined
from benchmarks.random_problems.uses import USES, judge_use

BAD = ("WRONG", "refused wrongly")


def _failures(seeds, family):
    out = []
    for seed in seeds:
        outcome = check(draw(seed, family))
        if outcome.status in BAD:
            out.append(f"seed {seed}: {outcome.status}: {'; '.join(outcome.findings)}")
    return out


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
def test_fits_are_what_dense_numpy_says(family):
    assert not _failures(range(4), family)


@pytest.mark.sampled
@pytest.mark.parametrize("use", USES)
def test_uses_of_fitted_models_are_what_numpy_says(use):
    if use == "dask_blocks":
        pytest.importorskip("distributed")
    _, words, _, findings = judge_use(1, use)
    assert not findings, words


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
def test_dozens_of_uses_are_what_numpy_says(use):
    found = {seed: judge_use(seed, use)[3] for seed in range(100, 130)}
    assert {seed: findings for seed, findings in found.items() if findings} == {}


# Separation missed behind rounding of probabilities near one, behind an offset of −15, and seen
# where counts far below the mean at β = 0 hold the coefficients.
@pytest.mark.parametrize("seed", [10053, 10027, 16, 3135])
def test_separation_is_what_linear_programming_says(seed):
    assert not _failures([seed], None)


@pytest.mark.slow
def test_thresholds_without_numbers_end_a_step_and_warn_of_nothing():
    """A trial so far out that the thresholds' own step is no number."""
    assert not _failures([197154, 198752], None)


def test_the_slope_of_a_step_without_curvature_overflows_without_a_warning():
    assert not _failures([920841], None)


def test_folds_that_say_nothing_choose_the_smallest_variance_in_every_storage():
    """Held-out events that are alone in their risk sets: scores of 0, or rounding."""
    assert not _failures([200256], None)


@pytest.mark.host
def test_coordinate_descent_that_runs_off_says_so_and_warns_of_no_overflow():
    """There is an optimum: the refusal counts as wrong, but it names the remedy."""
    (said,) = _failures([10352], None)
    assert "refused wrongly" in said
    assert "Use solver='newton'" in said


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_hundreds_of_fits_are_what_dense_numpy_says(family):
    # Coordinate descent has no line search, and says so where it runs off (see above).
    found = _failures(range(100, 300), family)
    assert not [line for line in found if "solver='ccd' overflowed" not in line]


@pytest.mark.parametrize("family", FAMILIES)
def test_dense_derivatives_are_those_of_the_dense_objective(family):
    dense = dense_problem(draw(1, family))
    rng = np.random.default_rng(0)
    t = dense.start() + 1e-3 * np.sort(rng.normal(size=dense.P))
    _, g, H = dense.derivatives(t)
    size = np.abs(H).max()
    for j in rng.choice(dense.P, min(dense.P, 6), replace=False):
        e = np.zeros(dense.P)
        e[j] = 1e-6
        up, down = dense.derivatives(t + e), dense.derivatives(t - e)
        np.testing.assert_allclose((up[0] - down[0]) / 2e-6, g[j], rtol=1e-5, atol=1e-6 * size)
        np.testing.assert_allclose((up[1] - down[1]) / 2e-6, H[j], rtol=1e-4, atol=1e-5 * size)


def test_a_separated_column_is_told_from_one_that_is_not():
    problem = draw(1, "logistic")
    y = problem.data["y"]
    problem.prior, problem.variances, problem.excluded = "none", {}, ()
    problem.weights = problem.offset = None
    problem.settings = {"fit_intercept": True}
    rng = np.random.default_rng(0)
    problem.X = np.column_stack([rng.normal(size=len(y)), y * (rng.random(len(y)) < 0.5)])
    assert separated(dense_problem(problem)) is not None
    problem.X[:, 1] = rng.normal(size=len(y))
    dense = dense_problem(problem)
    assert separated(dense) is None
    assert undetermined(dense) > 0.1
    assert optimise(dense)[2] < 1e-10


def test_an_estimate_far_out_beside_penalised_columns_is_no_separation():
    """One row is moved by a twenty-fifth of what others are, and does not cost at once."""
    outcome = check(draw(361197, "cumulative"))
    assert outcome.status == "ok", outcome.findings
