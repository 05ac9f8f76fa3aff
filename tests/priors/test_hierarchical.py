"""Groups that share a mean: the same as a normal prior with that covariance, and as its means."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize

import reference
from every_family import EVERY, case
from steropes import CrossValidation, DataError, Hierarchical, LogisticRegression, Normal
from steropes.infer.bootstrap_draws import Draws

GROUPS = [0, 0, 1, 1, None]
MEMBER = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [0, 0]])
FAMILIES = [name for name in EVERY if name not in ("pooled change", "cox by step", "cumulative")]


@pytest.mark.parametrize("name", FAMILIES)
def test_it_is_a_normal_prior_on_means_and_on_what_is_about_them(name):
    own = case(name, np.random.default_rng(4))
    model = own.fit(prior=Hierarchical(GROUPS, 0.3, 2.0))
    means = own.fit(np.column_stack([own.X, own.X @ MEMBER]), prior=Normal([0.3] * 5 + [2.0] * 2))
    about, mean = np.split(means.coef_, [-2])
    np.testing.assert_allclose(model.coef_, about + MEMBER @ mean, atol=1e-6)
    assert model.converged_


@pytest.mark.parametrize("as_x", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_the_posterior_mode_and_its_information_by_dense_mathematics(as_x):
    rng = np.random.default_rng(7)
    X = np.column_stack([rng.normal(size=(120, 3)), rng.random((120, 2)) < 0.3]) * 1.0
    y, w = rng.integers(0, 2, 120), rng.integers(0, 3, 120).astype(float)
    offset = 0.3 * rng.normal(size=120)
    prior = Hierarchical(GROUPS, 0.2, 1.5, exclude=[3])
    model = LogisticRegression(prior=prior).fit(as_x(X), y, sample_weight=w, offset=offset)
    S = np.diag([0.2, 0.2, 1.7, np.inf, 0.2])  # the one excluded leaves its group
    S[:2, :2] += 1.5
    P = np.zeros((6, 6))
    P[np.ix_([1, 2, 3, 5], [1, 2, 3, 5])] = np.linalg.inv(S[np.ix_([0, 1, 2, 4], [0, 1, 2, 4])])
    Z = np.column_stack([np.ones(120), X])

    def objective(b):
        loss, r = reference.logistic(Z @ b + offset, y, w)
        return loss + 0.5 * b @ P @ b, Z.T @ r + P @ b

    best = minimize(objective, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose(np.append(model.intercept_, model.coef_), best, atol=1e-6)
    mu = 1 / (1 + np.exp(-(Z @ best + offset)))
    information = Z.T @ ((w * mu * (1 - mu))[:, None] * Z) + P
    np.testing.assert_allclose(model.vcov(), np.linalg.inv(information), rtol=1e-5)


def test_a_mapping_of_names_is_the_same():
    rng = np.random.default_rng(8)
    X = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    y = rng.integers(0, 2, 80)
    a = LogisticRegression(prior=Hierarchical({"a": "x", "c": "x"}, 0.1)).fit(X, y)
    b = LogisticRegression(prior=Hierarchical([5, None, 5], 0.1)).fit(X, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_cross_validation_fits_each_fold_under_the_joint_prior():
    rng = np.random.default_rng(9)
    X, fold = rng.normal(size=(120, 5)), np.arange(120) % 3
    y = (rng.random(120) < 1 / (1 + np.exp(-X.sum(axis=1)))).astype(int)
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    prior = Hierarchical(GROUPS, 1.0, [0.5, 3.0])
    model = LogisticRegression(prior=prior, cv=CrossValidation(splits, search=[0.1, 0.4]))
    table = model.fit(X, y).cv_results_
    assert list(table["group_variance"]) == [0.5, 0.5, 3.0, 3.0]
    for _, row in table.iterrows():
        one = Hierarchical(GROUPS, row["variance"], row["group_variance"])
        for k, (train, test) in enumerate(splits):
            part = LogisticRegression(prior=one).fit(X[train], y[train])
            score = -reference.logistic(part.linear_predictor(X[test]), y[test], 1.0)[0]
            assert row[f"fold{k}"] == pytest.approx(score, abs=1e-4)
    best = table.loc[table["mean"].idxmax()]
    assert (model.prior_.variance, model.prior_.group_variance) == (
        best["variance"], best["group_variance"],
    )  # fmt: skip
    alone = LogisticRegression(prior=model.prior_).fit(X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-6)


def test_the_walk_goes_past_where_only_the_means_count():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(300, 6))
    y = (rng.random(300) < 1 / (1 + np.exp(-X @ [1.2, 0.9, 0.2, 1.0, 0.7, 1.1]))).astype(int)
    cv = CrossValidation(3, random_state=0)
    model = LogisticRegression(prior=Hierarchical(np.zeros(6), 1.0, 1.0), cv=cv).fit(X, y)
    assert model.variance_ > 1e-3
    assert len(model.cv_results_) < 25


@pytest.mark.parametrize(
    ("prior", "why"),
    [
        (Hierarchical([0, 1]), "a label for each of the 5"),
        (Hierarchical({"z": 1}), "'z', which is not a column"),
        (Hierarchical(GROUPS, -1.0), "variance must be a positive"),
        (Hierarchical(GROUPS, 1.0, [1.0, 2.0]), "several values need a cross-validation"),
        (Hierarchical(GROUPS, 1.0, np.inf), "group_variance must be a positive"),
    ],
)
def test_settings_that_make_no_sense_are_refused(prior, why):
    with pytest.raises(DataError, match=why):
        case("logistic", np.random.default_rng(0)).fit(prior=prior)


def test_a_bootstrap_draw_is_a_fit_to_its_rows_under_the_joint_prior():
    own = case("logistic", np.random.default_rng(11))
    prior = Hierarchical(GROUPS, 0.2, 1.0)
    model = own.fit(prior=prior)
    before = model.coef_.copy()
    drawn = model.inference.bootstrap(3, random_state=5)
    draws = Draws(np.ones(len(own.y)), None, 3, np.random.default_rng(5))
    for k in range(3):
        again = own.make(prior=prior).fit(own.X, own.y, sample_weight=draws.one(k), **own.extras)
        np.testing.assert_allclose(drawn.coef[k, 1:], again.coef_, atol=1e-4)
    np.testing.assert_array_equal(model.coef_, before)


def test_more_columns_than_a_matrix_of_them_can_hold_are_refused():
    X = sparse.csc_array((np.ones(20), (np.arange(20), np.arange(20))), shape=(20, 10_001))
    with pytest.raises(DataError, match="at most 10,000"):
        LogisticRegression(prior=Hierarchical(np.zeros(10_001))).fit(X, np.arange(20) % 2)


def test_there_is_no_profile():
    model = case("logistic", np.random.default_rng(0)).fit(prior=Hierarchical(GROUPS))
    with pytest.raises(DataError, match="there is no profile"):
        model.inference.profile(1)
