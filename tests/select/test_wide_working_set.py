"""How many columns folds are let in to begin with."""

import numpy as np

from simulators import indicators, outcome
from steropes import CrossValidation, Laplace, LogisticRegression
from steropes.select import expected, path


def test_the_most_urgent_come_first_where_they_are_too_many(rng, monkeypatch):
    X = indicators(rng, 400, 60)
    y = outcome("logistic", X @ rng.normal(size=60) * 0.3, rng)
    cv = CrossValidation(3, random_state=0, search=[0.05, 0.2])
    found, joined, expect = [], [], path.FoldsPath._expect

    def noted(self, prior, ahead, near):
        before = len(self.common.active.W)
        expect(self, prior, ahead, near)
        joined.append(len(self.common.active.W) - before)

    monkeypatch.setattr(path.FoldsPath, "_expect", noted)
    monkeypatch.setattr(expected, "NEAR", 0.0)  # all others
    found.append(LogisticRegression(prior=Laplace(), cv=cv).fit(X, y))
    assert max(joined) > 2
    monkeypatch.setattr(expected, "BROAD", 0)
    monkeypatch.setattr(expected, "WIDEST", 0.0)
    monkeypatch.setattr(expected, "SOME", 2)
    joined.clear()
    found.append(LogisticRegression(prior=Laplace(), cv=cv).fit(X, y))
    assert max(joined) == 2
    np.testing.assert_allclose(found[1].coef_, found[0].coef_, atol=1e-6)
    columns = ["variance", "mean", "se"]
    np.testing.assert_allclose(
        found[1].cv_results_[columns], found[0].cv_results_[columns], rtol=1e-6
    )
