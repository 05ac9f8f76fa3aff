"""How far the folds are fitted: λ is small where many coefficients are nonzero."""

import numpy as np
import pytest

from simulators import indicators, outcome
from steropes import CrossValidation, Laplace, LogisticRegression
from steropes.fit import Replicates
from steropes.select.fold_fits_along_path import Tolerances
from steropes.select.variance_path_constants import DEFAULT
from tuning import tune_path


@pytest.mark.parametrize(
    ("dear", "hundreds", "rows", "times"),
    [(500, 4000, 20, 1), (1, 4000, 20, 10), (1, 2, 1, 30), (1, 2, 10_000, 10)],
)
def test_folds_are_solved_less_far_the_more_is_nonzero(
    rng, monkeypatch, dear, hundreds, rows, times
):
    X = indicators(rng, 300, 8)
    y = outcome("logistic", X @ np.linspace(-2, 2, 8), rng)
    tune_path(monkeypatch, small=0, many_nonzero=dear, dearest_nonzero=hundreds, dearest_rows=rows)
    asked, solve = [], Replicates.solve_under_prior

    def solve_under_prior(self, prior, tol, *rest):
        asked.append(tol)
        return solve(self, prior, tol, *rest)

    monkeypatch.setattr(Replicates, "solve_under_prior", solve_under_prior)
    cv = CrossValidation(3, search=[10.0], random_state=0)
    LogisticRegression(prior=Laplace(1.0), cv=cv).fit(X, y)
    assert asked == [times * cv.tol]


def test_no_multiple_of_a_tolerance_is_loose():
    def owed(tol):
        return Tolerances(tol, True, False, 100_000, 20_000, DEFAULT).owed(1000)

    assert owed(1e-3) == pytest.approx(0.03)
    assert owed(0.05) == DEFAULT.loosest
    assert owed(0.3) == 0.3  # what was asked for
