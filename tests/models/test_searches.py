"""scikit-learn's searches: survival models have a score, priors have settings."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from every_family import EVERY, case
from steropes import (
    CoxRegression,
    DataError,
    ElasticNet,
    FineGrayRegression,
    Laplace,
    LogisticRegression,
    Normal,
    PooledLogisticRegression,
    Surv,
)

SURVIVAL = ["cox", "cox by step", "fine gray", "pooled", "pooled change"]
PRIORS = [Laplace(0.5, ["a"]), Normal(np.arange(1.0, 4.0)), ElasticNet(1.0, 2.0)]


@pytest.mark.sampled
@pytest.mark.parametrize("family", SURVIVAL)
def test_a_survival_model_is_searched_by_its_concordance(family, rng):
    c = case(family, rng)
    search = GridSearchCV(c.make(prior=Normal()), {"prior__variance": [1e-6, 1.0]}, cv=3)
    search.fit(c.X, c.y)
    m = search.best_estimator_
    assert m.prior_.variance == search.best_params_["prior__variance"]
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert m.score(c.X, c.y) == m.validation.concordance(c.X, c.y)
    assert 0.5 < m.score(c.X, c.y) <= 1.0
    assert cross_val_score(c.make(), c.X, c.y, cv=3).shape == (3,)


def test_concordance_for_a_cause_is_that_of_all_pairs(rng):
    n = 60
    X, code = rng.normal(size=(n, 2)), rng.integers(0, 3, n)
    time = np.ceil(4 * rng.exponential(size=n))
    y = Surv(time, code)
    m = FineGrayRegression().fit(X, y)
    risk, good, pairs = m.predict(X), 0.0, 0
    for i in np.flatnonzero(code == 1):
        for j in range(n):
            later = time[j] > time[i] or code[j] == 2 or (time[j] == time[i] and code[j] == 0)
            if j != i and later:
                pairs += 1
                good += (risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j])
    assert m.validation.concordance(X, y) == pytest.approx(good / pairs, abs=1e-12)
    m.set_params(cause=2)
    assert m.validation.concordance(X, y) == pytest.approx(good / pairs, abs=1e-12)


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: type(p).__name__)
def test_priors_have_settings_that_clones_do_not_share(prior):
    again = clone(prior)
    assert again is not prior
    assert repr(again) == repr(prior)
    m = LogisticRegression(prior=prior)
    name = "laplace_variance" if isinstance(prior, ElasticNet) else "variance"
    assert f"prior__{name}" in m.get_params()
    other = clone(m).set_params(**{f"prior__{name}": 7.0})
    assert other.prior.get_params()[name] == 7.0
    assert repr(m.prior) == repr(prior)
    with pytest.raises(DataError, match="no setting 'scale'"):
        m.set_params(prior__scale=1.0)
    assert repr(m.prior) == repr(prior)


@pytest.mark.parametrize("family", EVERY)
def test_a_prior_changed_in_place_is_a_matter_of_the_next_fit(family, rng):
    c = case(family, rng)
    prior = Normal(1.0)
    m = c.fit(prior=prior)
    table = m.summary().copy()
    m.set_params(prior__variance=1e-6)
    assert prior.variance == 1e-6
    assert m.prior_.variance == 1.0
    assert m.summary().equals(table)
    m.fit(c.X, c.y, **c.extras)
    k = 1 if "x0" not in table.index[:1] else 0
    assert np.abs(m.coef_[k:]).max() < 0.01


# -- beyond what was observed --------------------------------------------------------------------


def test_survival_beyond_the_last_observed_time_is_missing(rng):
    n = 90
    X, time = rng.normal(size=(n, 2)), rng.uniform(1, 10, n)
    strata = np.repeat(["a", "b"], n // 2)
    time[strata == "b"] /= 2
    y = Surv(time, rng.integers(0, 2, n))
    ends = {s: time[strata == s].max() for s in "ab"}
    for settings in ({}, {"time_varying": {0: [3.0]}}):
        m = CoxRegression(**settings).fit(X, y, strata=strata)
        S = m.predict_survival(
            X[:2], [0.0, ends["b"], ends["b"] + 1e-6, ends["a"], 99.0], ["a", "b"]
        )
        assert np.isfinite(S[0, :4]).all()
        assert np.isnan(S[0, 4])
        assert np.isfinite(S[1, :2]).all()
        assert np.isnan(S[1, 2:]).all()
    w = (time < 8).astype(float)  # rows without weight were not observed
    m = CoxRegression().fit(X, y, sample_weight=w)
    last = time[w > 0].max()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        S = m.predict_survival(X[:1], [last, last + 1e-9])
    assert np.isnan(S).tolist() == [[False, True]]


def test_cumulative_incidence_beyond_the_last_observed_time_is_missing(rng):
    X, time = rng.normal(size=(80, 2)), rng.uniform(1, 10, 80)
    m = FineGrayRegression().fit(X, Surv(time, rng.integers(0, 3, 80)))
    at = m.predict_cumulative_incidence(X[:3], [0.5, time.max(), 10.1])
    assert np.isfinite(at[:, :2]).all()
    assert np.isnan(at[:, 2]).all()


def test_pooled_survival_beyond_the_last_interval_at_risk_is_missing(rng):
    X, time = rng.normal(size=(80, 2)), rng.uniform(0.5, 9.5, 80)
    y = Surv(time, rng.integers(0, 2, 80))
    m = PooledLogisticRegression(breaks=[0, 2, 4, 6, 8, 10, 12, 14], baseline=1).fit(X, y)
    S = m.predict_survival(X[:2], [12.0, 0.0, 10.0, 10.5, 99.0])
    assert np.isnan(S).all(axis=0).tolist() == [True, False, False, True, True]
    np.testing.assert_allclose(m.predict(X[:2]), 1 - S[:, 2])
