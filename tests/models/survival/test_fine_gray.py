"""The Fine-Gray estimator: covariance, cross-validation, strata, weights, refusals."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

import steropes
from survival_reference import censoring_survival, fine_gray_loss


def people(seed, n=120, p=3, ties=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    eta = X @ np.array([0.8, -0.5, 0.0, 0.3, 0.2][:p])
    first = rng.random(n) < 0.6
    time = rng.exponential(size=n) * np.exp(np.where(first, -eta, 0.3 * eta))
    censor = rng.exponential(1.5, n)
    code = np.where(time <= censor, np.where(first, 1, 2), 0)
    time = np.minimum(time, censor)
    return X, np.ceil(time * 10) if ties else time, code


def scores_by_definition(X, time, code, beta, w):
    """η̂_i + ψ̂_i of Fine and Gray (1999, §3), looping over everything; no ties."""
    n, p = X.shape
    r = w * np.exp(X @ beta)
    events = np.flatnonzero(code == 1)
    censored = np.flatnonzero(code == 0)
    G = {t: censoring_survival(time, code, w, t) for t in time}

    def omega(i, t):
        if time[i] >= t:
            return 1.0
        return G[t] / G[time[i]] if code[i] > 1 else 0.0

    mean, jump = {}, {}
    for k in events:
        t = time[k]
        o = np.array([omega(i, t) for i in range(n)])
        S = (o * r).sum()
        mean[k], jump[k] = (o * r) @ X / S, w[k] / S
    U = np.zeros((n, p))
    for i in range(n):
        if code[i] == 1:
            U[i] += w[i] * (X[i] - mean[i])
        for k in events:
            U[i] -= (X[i] - mean[k]) * omega(i, time[k]) * r[i] * jump[k]
    at_risk = {j: w[time >= time[j]].sum() for j in censored}
    q = {}
    for j in censored:
        u, total = time[j], np.zeros(p)
        for i in np.flatnonzero((code > 1) & (time < u)):
            for k in events:
                if time[k] >= u:
                    total += (X[i] - mean[k]) * omega(i, time[k]) * r[i] * jump[k]
        q[j] = total
    for i in range(n):
        for j in censored:
            if time[i] >= time[j]:
                dM = (i == j) - w[j] / at_risk[j]
                U[i] += w[i] * q[j] / at_risk[j] * dM
    return U


@pytest.mark.parametrize("weighted", [False, True])
def test_robust_covariance_is_that_of_the_paper(weighted):
    X, time, code = people(0, 70)
    rng = np.random.default_rng(1)
    w = rng.uniform(0.5, 2, 70) if weighted else np.ones(70)
    m = steropes.FineGrayRegression().fit(X, steropes.Surv(time, code), sample_weight=w)
    U = scores_by_definition(X, time, code, m.coef_, w)
    np.testing.assert_allclose(U.sum(axis=0), 0, atol=1e-6)
    V = m.vcov("model").to_numpy()
    np.testing.assert_allclose(m.vcov("robust").to_numpy(), V @ U.T @ U @ V, rtol=1e-7)
    cluster = np.arange(70) % 9
    sums = np.array([U[cluster == c].sum(axis=0) for c in range(9)])
    by_cluster = m.vcov("robust", cluster=cluster).to_numpy()
    np.testing.assert_allclose(by_cluster, V @ sums.T @ sums @ V, rtol=1e-7)
    se = np.sqrt(np.diag(V @ U.T @ U @ V))
    np.testing.assert_allclose(m.summary(kind="robust")["se"], se, rtol=1e-7)
    half = (m.confint(method="robust")["upper"] - m.coef_) / se
    np.testing.assert_allclose(half, 1.959964, rtol=1e-6)


def test_robust_scores_within_strata_are_those_of_each_stratum():
    X, time, code = people(3, 90)
    strata = np.arange(90) % 3
    m = steropes.FineGrayRegression().fit(X, steropes.Surv(time, code), strata=strata)
    U = np.zeros_like(X)
    for s in range(3):
        here = strata == s
        one = np.ones(here.sum())
        U[here] = scores_by_definition(X[here], time[here], code[here], m.coef_, one)
    V = m.vcov().to_numpy()
    np.testing.assert_allclose(m.vcov("robust").to_numpy(), V @ U.T @ U @ V, rtol=1e-7)


@pytest.mark.parametrize("ties", [False, True])
def test_the_fit_maximises_the_likelihood_of_its_definition(ties):
    X, time, code = people(4, 60, ties=ties)
    w = np.random.default_rng(0).integers(0, 3, 60).astype(float)
    offset = 0.3 * X[:, 0] ** 2
    strata = np.arange(60) % 2
    m = steropes.FineGrayRegression().fit(
        X, steropes.Surv(time, code), sample_weight=w, offset=offset, strata=strata
    )

    def loss(b):
        return fine_gray_loss(X @ b + offset, time, code, 1, w, strata)

    best = optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose(m.coef_, best.x, atol=1e-5)
    assert m.log_likelihood_ == pytest.approx(-loss(m.coef_), rel=1e-12)


def test_weights_are_repeats():
    X, time, code = people(5, 80, ties=True)
    w = np.random.default_rng(0).integers(0, 4, 80)
    a = steropes.FineGrayRegression().fit(X, steropes.Surv(time, code), sample_weight=w)
    at = np.repeat(np.arange(80), w)
    b = steropes.FineGrayRegression().fit(X[at], steropes.Surv(time[at], code[at]))
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9)
    np.testing.assert_allclose(a.vcov().to_numpy(), b.vcov().to_numpy(), rtol=1e-8)


def test_labels_of_strata_and_order_of_rows_do_not_matter():
    """Predecessors' stratified answers depended on the labels."""
    X, time, code = people(6, 100)
    strata = np.arange(100) % 4
    y = steropes.Surv(time, code)
    one = steropes.FineGrayRegression().fit(X, y, strata=strata)
    labels = np.array([("z", 1), ("a", 2), "m", 7.5, None], dtype=object)[:4]
    by = np.random.default_rng(0).permutation(100)
    two = steropes.FineGrayRegression().fit(X[by], y[by], strata=list(labels[strata][by]))
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-10)
    assert one.log_likelihood_ == pytest.approx(two.log_likelihood_, rel=1e-13)
    np.testing.assert_allclose(
        one.predict_cumulative_incidence(X[:5], [0.2, 1], strata=strata[:5]),
        two.predict_cumulative_incidence(X[:5], [0.2, 1], strata=list(labels[strata[:5]])),
        rtol=1e-9,
    )


def test_codes_of_competing_events_do_not_matter():
    X, time, code = people(7)
    one = steropes.FineGrayRegression().fit(X, steropes.Surv(time, code))
    three = np.where((code == 2) & (np.arange(len(code)) % 2 == 0), 3, code)
    two = steropes.FineGrayRegression().fit(X, steropes.Surv(time, three))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    swapped = np.where(code == 1, 5, code)
    other = steropes.FineGrayRegression(cause=5).fit(X, steropes.Surv(time, swapped))
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-12)


@pytest.mark.sampled
@pytest.mark.parametrize("scoring", ["held_out", "difference"])
@pytest.mark.parametrize("stratified", [False, True])
def test_cross_validation_is_naive_refits(scoring, stratified):
    """Each row is in one fold, a competing event too; each part has its own censoring curve."""
    X, time, code = people(8, 90, ties=True)
    y = steropes.Surv(time, code)
    strata = np.arange(90) % 2 if stratified else np.zeros(90, int)
    fold = np.random.default_rng(0).integers(0, 3, 90)
    splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    cv = steropes.CrossValidation(splits, search=[0.02, 0.3], scoring=scoring, tol=1e-8)
    m = steropes.FineGrayRegression(prior=steropes.Normal(1.0), cv=cv)
    m.fit(X, y, strata=strata)
    for v in (0.02, 0.3):
        expected = []
        for train, test in splits:
            r = steropes.FineGrayRegression(prior=steropes.Normal(v), tol=1e-10)
            b = r.fit(X[train], y[train], strata=strata[train]).coef_

            def log_likelihood(at, b=b):
                return -fine_gray_loss(X[at] @ b, time[at], code[at], 1, None, strata[at])

            whole = np.arange(90)
            expected.append(
                log_likelihood(test)
                if scoring == "held_out"
                else log_likelihood(whole) - log_likelihood(train)
            )
        row = m.cv_results_[np.isclose(m.cv_results_["variance"], v)].iloc[0]
        np.testing.assert_allclose(
            row[["fold0", "fold1", "fold2"]].to_numpy(float), expected, rtol=1e-6
        )


def test_many_event_times_and_columns_reach_the_same_optimum():
    """Above some hundred event times the steps' Hessian is pooled; the optimum is exact."""
    rng = np.random.default_rng(11)
    n, p = 3000, 20
    X = (rng.random((n, p)) < 0.2).astype(float)
    time, code = rng.exponential(size=n) * np.exp(-X[:, 0]), rng.integers(0, 3, n)
    m = steropes.FineGrayRegression(tol=1e-10).fit(X, steropes.Surv(time, code))
    assert m.converged_
    assert m.n_iter_ < 12
    lasso = steropes.FineGrayRegression(prior=steropes.Laplace(0.01), tol=1e-10)
    lasso.fit(X, steropes.Surv(time, code))
    assert lasso.converged_
    assert 0 < np.count_nonzero(lasso.coef_) < p


def test_incidence_of_no_covariates_is_that_of_aalen_and_johansen():
    """At β = 0 without censoring the estimate is the share with the event."""
    rng = np.random.default_rng(0)
    time, code = rng.permutation(200) + 1.0, rng.integers(1, 3, 200)
    X = np.zeros((200, 1))
    m = steropes.FineGrayRegression(prior=steropes.Laplace(1e-9)).fit(X, steropes.Surv(time, code))
    at = np.array([20.0, 100, 180])
    share = np.array([(code[time <= t] == 1).mean() * (time <= t).mean() for t in at])
    got = m.predict_cumulative_incidence(X[:1], at)[0]
    np.testing.assert_allclose(got, share, atol=4e-3)
    assert m.predict_cumulative_incidence(X[:1], [0.5])[0, 0] == 0


def test_refusals():
    X, time, code = people(9)
    m = steropes.FineGrayRegression()
    with pytest.raises(steropes.DataError, match="cause 4"):
        steropes.FineGrayRegression(cause=4).fit(X, steropes.Surv(time, code))
    with pytest.raises(steropes.DataError, match="code from 1"):
        steropes.FineGrayRegression(cause=0).fit(X, steropes.Surv(time, code))
    with pytest.raises(steropes.DataError, match="no events"):
        m.fit(X, steropes.Surv(time, code), sample_weight=(code != 1).astype(float))
    m.fit(X, steropes.Surv(time, code), strata=np.arange(len(X)) % 2)
    with pytest.raises(steropes.DataError, match="pass those of the new rows"):
        m.predict_cumulative_incidence(X, [1])
    with pytest.raises(steropes.DataError, match="not there in the fit"):
        m.predict_cumulative_incidence(X[:1], [1], strata=[5])
    with pytest.raises(steropes.DataError, match="kind"):
        m.vcov("sandwich")
    with pytest.raises(steropes.DataError, match="cluster"):
        m.vcov(cluster=np.arange(len(X)))


def test_pickle_and_clone():
    import pickle

    from sklearn.base import clone

    X, time, code = people(10)
    m = steropes.FineGrayRegression(cause=2, prior=steropes.Normal(2.0))
    m.fit(pd.DataFrame(X, columns=["a", "b", "c"]), steropes.Surv(time, code))
    again = pickle.loads(pickle.dumps(m))
    np.testing.assert_array_equal(
        m.predict_cumulative_incidence(X, [1.0]), again.predict_cumulative_incidence(X, [1.0])
    )
    assert len(pickle.dumps(m)) < 60_000
    assert clone(m).cause == 2
    pd.testing.assert_frame_equal(
        m.curves.baseline_hazard(level=None), again.curves.baseline_hazard(level=None)
    )


def test_extreme_linear_predictors():
    X, time, code = people(12)
    y = steropes.Surv(time, code)
    one = steropes.FineGrayRegression().fit(X, y)
    shifted = steropes.FineGrayRegression().fit(X, y, offset=np.full(len(X), 900.0))
    np.testing.assert_allclose(one.coef_, shifted.coef_, atol=1e-8)
    P = one.predict_cumulative_incidence(X[:4] * 1e4, [0.5, 1.0])
    assert np.isfinite(P).all()
    assert ((P >= 0) & (P <= 1)).all()
