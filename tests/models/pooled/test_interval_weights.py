"""Weights of single intervals equal weights of person-intervals in a logistic regression."""

import numpy as np
import pandas as pd
import pytest

import steropes
from steropes import LogisticRegression, PooledLogisticRegression, Surv
from steropes.data.interval_weights import IntervalWeights

N, K = 300, 8


@pytest.fixture(scope="module")
def data():
    """X, times, events, entries, and weights (N, K) of people."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=N) + 3, "b": (rng.random(N) < 0.4) * 1.0})
    time = rng.integers(1, K + 1, N)
    event = (rng.random(N) < 0.6) * 1
    entry = np.minimum(rng.integers(0, 3, N), time - 1)
    return X, time, event, entry, rng.gamma(2, 0.5, (N, K))


def expanded(data):
    """Columns, outcome, weights and people of the person-intervals."""
    X, time, event, entry, W = data
    person = np.repeat(np.arange(N), time - entry)
    k = np.concatenate([np.arange(a, z) for a, z in zip(entry, time, strict=True)])
    Z = X.iloc[person].reset_index(drop=True)
    Z = Z.assign(t=k + 1.0, b_t=Z["b"] * (k + 1.0), t2=(k + 1.0) ** 2)
    return Z, (event[person] == 1) & (k == time[person] - 1), W[person, k], person


@pytest.mark.parametrize("changing", [None, {"b": 1}])
def test_fit_is_that_of_weighted_person_intervals(data, changing):
    X, time, event, entry, W = data
    Z, y, w, person = expanded(data)
    Z = Z if changing else Z.drop(columns="b_t")
    names = {"intercept": "intercept", "t": "t", "t^2": "t2", "a": "a", "b": "b", "b:t": "b_t"}
    fit = PooledLogisticRegression(interval=1, time_varying=changing).fit(
        X, Surv(time, event, entry), interval_weights=W
    )
    reference = LogisticRegression().fit(Z, y, sample_weight=w)
    cluster = np.arange(N) // 2
    found, wanted = fit.summary(cluster=cluster), reference.summary(cluster=cluster[person])
    rows = [names[name] for name in found.index]
    for column in ("coef", "se"):
        np.testing.assert_allclose(found[column], wanted.loc[rows, column], rtol=1e-6)
    assert fit.log_likelihood_ == pytest.approx(reference.log_likelihood_, rel=1e-12)
    np.testing.assert_allclose(
        fit.vcov("model"),
        reference.vcov("model").loc[rows, rows],
        rtol=1e-6,
    )


def test_errors_are_robust_by_default(data):
    X, time, event, entry, W = data
    fit = PooledLogisticRegression(interval=1).fit(X, Surv(time, event, entry), interval_weights=W)
    np.testing.assert_array_equal(fit.vcov(), fit.vcov("robust"))


def test_rows_share_a_curve_within_limits(data):
    """Segments of one curve, scaled and limited, equal the table of the same weights."""
    X, time, event, entry, _ = data
    rng = np.random.default_rng(1)
    curve = np.exp(rng.normal(size=N + K))
    scale = 1 / curve[:N]
    segments = IntervalWeights(curve, np.arange(N), scale, 0.5, 2.0)
    table = np.clip(scale[:, None] * curve[np.arange(N)[:, None] + np.arange(K)], 0.5, 2.0)
    y = Surv(time, event, entry)
    short, long = (
        PooledLogisticRegression(interval=1).fit(X, y, interval_weights=w)
        for w in (segments, table)
    )
    np.testing.assert_array_equal(short.coef_, long.coef_)


def test_draws_of_a_bootstrap_keep_interval_weights(data):
    X, time, event, entry, W = data
    y = Surv(time, event, entry)
    model = PooledLogisticRegression(interval=1).fit(X, y, interval_weights=W)
    draws = model.inference.bootstrap(3, random_state=1)
    again = model.inference.bootstrap(3, random_state=1)
    np.testing.assert_array_equal(draws.coef, again.coef)
    ones = PooledLogisticRegression(interval=1).fit(X, y).inference.bootstrap(3, random_state=1)
    assert np.abs(np.asarray(draws.coef) - np.asarray(ones.coef)).max() > 0.01


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda W: W[:, :3], "a column for each of 8 intervals"),
        (lambda W: W[1:], "a row for each of 300 rows"),
        (lambda W: -W, "not negative"),
        (lambda W: np.where(np.arange(N)[:, None] == 5, np.nan, W), "interval_weights"),
    ],
)
def test_other_weights_are_refused(data, change, message):
    X, time, event, entry, W = data
    with pytest.raises(steropes.DataError, match=message):
        PooledLogisticRegression(interval=1).fit(
            X, Surv(time, event, entry), interval_weights=change(W)
        )


def test_other_families_have_no_interval_weights(data):
    X, _, event, _, W = data
    with pytest.raises(steropes.DataError, match="interval_weights"):
        LogisticRegression().fit(X, event, interval_weights=W)
