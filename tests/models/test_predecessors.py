"""Mistakes of the programs before this one, each by name (docs: what must have a test)."""

import numpy as np
import pytest
from scipy import sparse

import reference
from simulators import problem
from steropes import CoxRegression, CrossValidation, ElasticNet, Laplace, LogisticRegression, Surv


def cox_data(rng, n=200):
    X, (time, event) = problem("cox", rng, n, 3)
    return X, time, event


def test_efron_is_not_breslow_nor_breslow_efron(rng):
    X, time, event = cox_data(rng)
    for ties, other in (("efron", "breslow"), ("breslow", "efron")):
        m = CoxRegression(ties=ties).fit(X, Surv(time, event))
        own, _ = reference.cox(X @ m.coef_, (time, event), np.ones(200), ties)
        foreign, _ = reference.cox(X @ m.coef_, (time, event), np.ones(200), other)
        assert m.log_likelihood_ == pytest.approx(-own, rel=1e-12)
        assert abs(own - foreign) > 0.1


def test_start_stop_is_not_collapsed_to_a_duration(rng):
    X, time, event = cox_data(rng)
    entry = np.floor(time * rng.random(200))
    late = CoxRegression().fit(X, Surv(time, event, entry))
    duration = CoxRegression().fit(X, Surv(time - entry, event))
    own, g = reference.cox(X @ late.coef_, (time, event), np.ones(200), "efron", entry=entry)
    assert late.log_likelihood_ == pytest.approx(-own, rel=1e-12)
    assert np.abs(X.T @ g).max() < 1e-5
    assert np.abs(late.coef_ - duration.coef_).max() > 0.01


def test_a_row_cut_at_a_time_is_the_same_row(rng):
    X, time, event = cox_data(rng)
    whole = CoxRegression().fit(X, Surv(time, event))
    cut = np.where(time > 1.5, 1.5, time / 2)  # (0, cut] and (cut, time]
    pieces = Surv(
        np.concatenate([cut, time]),
        np.concatenate([np.zeros(200, int), event]),
        np.concatenate([np.zeros(200), cut]),
    )
    both = CoxRegression().fit(np.concatenate([X, X]), pieces)
    np.testing.assert_allclose(both.coef_, whole.coef_, atol=1e-9)
    assert both.log_likelihood_ == pytest.approx(whole.log_likelihood_, rel=1e-12)


def test_weights_are_in_the_denominator_too(rng):
    X, time, event = cox_data(rng)
    time = time + 1e-4 * rng.permutation(200)
    w = rng.integers(1, 4, 200)
    rows = np.repeat(np.arange(200), w)
    weighted = CoxRegression(ties="breslow").fit(X, Surv(time, event), sample_weight=w)
    repeated = CoxRegression(ties="breslow").fit(X[rows], Surv(time[rows], event[rows]))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-8)


def test_success_is_an_optimum_and_nothing_else(rng):
    """A small step is not convergence: nearly collinear columns make all steps small."""
    X, y = problem("logistic", rng, 300, 3)
    X = np.column_stack([X, X[:, 2] + 1e-3 * rng.normal(size=300)])
    m = LogisticRegression(prior=Laplace(1e4)).fit(X, y)
    assert m.converged_
    violation = reference.certificate("logistic", X, y, m, l1=np.sqrt(2 / 1e4))
    assert violation < 1e-5
    assert m.optimality_ <= 1e-8


@pytest.mark.parametrize("share", [0.001, 1.0, 1000.0])
def test_the_path_begins_where_the_first_coefficient_enters_whatever_the_mix(rng, share):
    """An alpha-blind grid spends its points where nothing happens, or starts too late."""
    X, y = problem("logistic", rng, 300, 6)
    cv = CrossValidation(4, random_state=0)
    m = LogisticRegression(prior=ElasticNet(1.0, share), cv=cv).fit(X, y)
    assert m.cv_results_["nonzero"].iloc[0] <= 2
    assert m.cv_results_["nonzero"].max() >= 3
    assert m.variance_ in m.cv_results_["variance"].to_numpy()


def test_int64_indices_and_sparse_arrays_are_taken(rng):
    X, y = problem("logistic", rng, 100, 4)
    for kind in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        m = LogisticRegression(prior=Laplace(1.0)).fit(kind(X), y)
        assert m.converged_


def test_a_fit_does_not_change_another(rng):
    X, time, event = cox_data(rng)
    y = Surv(time, event)
    model = CoxRegression(prior=Laplace(0.1))
    first = model.fit(X, y).coef_
    model.fit(X, y, sample_weight=rng.random(200), offset=rng.normal(size=200))
    assert first.tobytes() == model.fit(X, y).coef_.tobytes()
