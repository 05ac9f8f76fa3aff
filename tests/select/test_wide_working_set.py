"""The number of columns that screening adds before folds are fitted."""

import numpy as np

from simulators import indicators, outcome
from steropes import CrossValidation, Laplace, LogisticRegression
from steropes.select import fold_fits_along_path as cross_validated_path
from tuning import tune_path


def test_the_most_urgent_come_first_where_they_are_too_many(rng, monkeypatch):
    X = indicators(rng, 400, 60)
    y = outcome("logistic", X @ rng.normal(size=60) * 0.3, rng)
    cv = CrossValidation(3, random_state=0, search=[0.05, 0.2])
    found, joined, screen = [], [], cross_validated_path.FoldsPath._screen

    def noted(self, prior, start):
        before = len(self.common.active.W)
        screen(self, prior, start)
        joined.append(len(self.common.active.W) - before)

    monkeypatch.setattr(cross_validated_path.FoldsPath, "_screen", noted)
    tune_path(monkeypatch, screening_share=0.0)  # all others
    found.append(LogisticRegression(prior=Laplace(), cv=cv).fit(X, y))
    assert max(joined) > 2
    tune_path(monkeypatch, screening_max_columns=0, screening_per_nonzero=0.0, screening_min_new=2)
    joined.clear()
    found.append(LogisticRegression(prior=Laplace(), cv=cv).fit(X, y))
    assert max(joined) == 2
    np.testing.assert_allclose(found[1].coef_, found[0].coef_, atol=1e-6)
    columns = ["variance", "mean", "se"]
    np.testing.assert_allclose(
        found[1].cv_results_[columns], found[0].cv_results_[columns], rtol=1e-6
    )
