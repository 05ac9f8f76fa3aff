"""Outcomes that are fitted together under a prior on the coefficients of a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.datasets import load_iris, load_linnerud
from sklearn.linear_model import MultiTaskLasso

import steropes
from steropes import (
    CrossValidation,
    JointLaplace,
    JointNormal,
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
)
from steropes.errors import DataError


def standardized(x: np.ndarray) -> np.ndarray:
    return np.asarray((x - x.mean(axis=0)) / x.std(axis=0))


def coefficients(table: pd.DataFrame, intercept: bool = False) -> np.ndarray:
    """Return the coefficients, with a row for each outcome."""
    wide = table.pivot(index="outcome", columns="coefficient", values="coef")
    wide = wide.loc[table["outcome"].unique(), table["coefficient"].unique()]
    return np.asarray(wide if intercept else wide.drop(columns="intercept", errors="ignore"))


@pytest.fixture(scope="module")
def simulated() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return covariates, and outcomes that the same three columns determine."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((600, 8))
    eta = X[:, :3] @ [[0.8, 0.6, 0.9], [-0.7, -0.5, -0.6], [0.5, 0.6, 0.4]]
    outcomes = rng.binomial(1, expit(eta - [0.0, 1.0, 2.5]))
    return X, dict(zip(("often", "less often", "rare"), outcomes.T, strict=True))


def test_linear_outcomes_agree_with_multi_task_lasso() -> None:
    data = load_linnerud()
    X, Y = standardized(data.data), standardized(data.target)
    lam = len(X) * 0.1
    prior = JointLaplace(variance=(Y.shape[1] + 1) / lam**2)
    table = steropes.fit_many(LinearRegression(prior=prior), X, pd.DataFrame(Y))
    found = coefficients(table)
    assert_allclose(found[0], [-0.07794526, -0.43012791, 0.0697002], atol=5e-9)
    expected = MultiTaskLasso(0.1, tol=1e-12, max_iter=100_000).fit(X, Y).coef_
    assert_allclose(found, expected, atol=1e-7)
    assert table.attrs["optimality"] <= 1e-8
    assert table["converged"].all()


def test_grouped_multinomial_agrees_with_glmnet() -> None:
    data = load_iris()
    lam = len(data.target) * 0.05
    model = steropes.MultinomialLogisticRegression(prior=JointLaplace(variance=4 / lam**2))
    model.fit(standardized(data.data), data.target)
    versicolor = [1.209840294, 0.0, -0.157907965, 0.121466894, -0.272801023]
    intercepts = model.intercept_ - model.intercept_.mean()
    assert_allclose([intercepts[1], *model.coef_[1]], versicolor, atol=1e-5)
    assert_allclose(-2 * model.log_likelihood_, 70.53000662, rtol=5e-6)
    assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-8)
    assert (model.coef_[:, 0] == 0).all()


def test_logistic_outcomes_equal_one_model_of_stacked_rows(
    simulated: tuple[np.ndarray, dict[str, np.ndarray]],
) -> None:
    X, outcomes = simulated
    n, p, K = *X.shape, len(outcomes)
    stacked = np.hstack([scipy.linalg.block_diag(*[X] * K), np.repeat(np.eye(K), n, axis=0)])
    own = [*np.tile(np.arange(p), K), *[None] * K]
    free = np.arange(stacked.shape[1]) >= K * p
    for prior, same in (
        (JointLaplace(0.01), steropes.GroupLaplace(own, 0.01, free)),
        (JointNormal(0.01, 0.5), steropes.Hierarchical(own, 0.01, 0.5, free)),
    ):
        table = steropes.fit_many(LogisticRegression(prior=prior), X, outcomes)
        model = LogisticRegression(prior=same, fit_intercept=False)
        model.fit(stacked, np.concatenate(list(outcomes.values())))
        assert_allclose(coefficients(table).ravel(), model.coef_[: K * p], atol=1e-7)
        if isinstance(prior, JointNormal):
            se = table.loc[table["coefficient"] != "intercept", "se"].to_numpy()
            assert_allclose(se, model.summary()["se"].to_numpy()[: K * p], rtol=1e-6)
        else:
            assert ((coefficients(table) != 0).sum(axis=0) % K == 0).all()
            assert table["se"].isna().all()


def test_counts_with_exposure_weights_and_missing_values_are_at_the_optimum() -> None:
    rng = np.random.default_rng(2)
    X, exposure = rng.standard_normal((300, 3)), rng.uniform(0.5, 3, 300)
    Y = rng.poisson(exposure[:, None] * np.exp(X @ rng.normal(0, 0.4, (3, 2))))
    y = Y.astype(float)
    y[:40, 1] = np.nan
    weight = rng.integers(1, 4, 300)
    prior = JointNormal(variance=0.02, mean_variance=0.3)
    table = steropes.fit_many(
        PoissonRegression(prior=prior), X, {"a": y[:, 0], "b": y[:, 1]}, exposure=exposure,
        sample_weight=weight,
    )  # fmt: skip

    def loss(theta: np.ndarray) -> float:
        B = theta.reshape(2, 4)
        total = 0.0
        for k in range(2):
            there = ~np.isnan(y[:, k])
            eta = B[k, 0] + X @ B[k, 1:] + np.log(exposure)
            total += (weight * (np.exp(eta) - np.nan_to_num(y[:, k]) * eta))[there].sum()
        mean = B[:, 1:].mean(axis=0)
        outer = 0.02 + 2 * 0.3
        total += 0.5 * (B[:, 1:] ** 2).sum() / outer
        return float(total + 0.5 * (1 / 0.02 - 1 / outer) * ((B[:, 1:] - mean) ** 2).sum())

    start = coefficients(table, intercept=True).ravel()
    best = minimize(loss, start, tol=1e-12)
    assert_allclose(start, best.x, atol=2e-5)
    assert loss(start) <= best.fun + 1e-9


def test_the_variance_is_chosen_by_the_sum_of_held_out_log_likelihoods(
    simulated: tuple[np.ndarray, dict[str, np.ndarray]],
) -> None:
    X, outcomes = simulated
    rows = np.arange(len(X))
    splits = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    cv = CrossValidation(splits, search=[1e-4, 1e-2, 1.0])
    model = LogisticRegression(prior=JointNormal(mean_variance=[0.1, 1.0]), cv=cv)
    table = steropes.fit_many(model, X, outcomes)
    results = pd.DataFrame(table.attrs["cv_results"])
    assert len(results) == 6
    best = results.loc[results["mean"].idxmax()]
    assert table["variance"].unique().tolist() == [best["variance"]]
    assert table.attrs["optimality"] <= 1e-8
    train, test = splits[1]
    prior = JointNormal(best["variance"], best["mean_variance"])
    fitted = steropes.fit_many(
        LogisticRegression(prior=prior), X[train], {k: y[train] for k, y in outcomes.items()}
    )
    own = coefficients(fitted, intercept=True)
    eta = own[:, :1].T + X[test] @ own[:, 1:].T
    y = np.column_stack(list(outcomes.values()))[test]
    assert_allclose(best["fold1"], (y * eta - np.logaddexp(0, eta)).sum(), rtol=1e-6)


def test_one_outcome_has_the_prior_of_single_coefficients(
    simulated: tuple[np.ndarray, dict[str, np.ndarray]],
) -> None:
    X, outcomes = simulated
    y = outcomes["often"]
    for joint, single in (
        (JointLaplace(0.01), steropes.Laplace(0.01)),
        (JointNormal(0.01, 0.02), steropes.Normal(0.03)),
    ):
        model = LogisticRegression(prior=single).fit(X, y)
        alone = LogisticRegression(prior=joint).fit(X, y)
        assert_allclose(alone.coef_, model.coef_, atol=1e-9)
        table = steropes.fit_many(LogisticRegression(prior=joint), X, {"y": y})
        assert_allclose(coefficients(table)[0], model.coef_, atol=1e-7)


def test_excluded_columns_are_not_penalised_and_outcomes_without_events_have_a_reason(
    simulated: tuple[np.ndarray, dict[str, np.ndarray]],
) -> None:
    X, outcomes = simulated
    given = {**outcomes, "never": np.zeros(len(X))}
    prior = JointLaplace(1e-6, exclude=["x1"])
    table = steropes.fit_many(LogisticRegression(prior=prior), X, given)
    never = table[table["outcome"] == "never"]
    assert never["coef"].isna().all()
    assert not never["converged"].any()
    assert "no events" in never["note"].iloc[0] or "one class" in never["note"].iloc[0]
    kept = coefficients(table[table["outcome"] != "never"])
    alone = LogisticRegression().fit(X[:, [1]], outcomes["often"])
    assert (kept[:, [0, *range(2, 8)]] == 0).all()
    assert_allclose(kept[0, 1], alone.coef_[0], atol=1e-7)


def test_far_offsets_and_separated_outcomes_are_those_of_single_fits(
    simulated: tuple[np.ndarray, dict[str, np.ndarray]],
) -> None:
    X, outcomes = simulated
    offset = np.random.default_rng(0).normal(60, 10, len(X))
    y = {k: outcomes[k] for k in ("often", "rare")}
    search = CrossValidation(3, search=[1e-3, 1e-2], random_state=1)
    table = steropes.fit_many(
        PoissonRegression(prior=JointNormal(mean_variance=0.3), cv=search), X, y, offset=offset
    )
    assert table["converged"].all()
    weak = JointNormal(variance=100.0, mean_variance=100.0)
    found = steropes.fit_many(PoissonRegression(prior=weak), X, y, offset=offset)
    alone = PoissonRegression(prior=steropes.Normal(200.0)).fit(X, y["rare"], offset=offset)
    assert_allclose(coefficients(found)[1], alone.coef_, rtol=1e-2)
    separated = {"apart": (X[:, 0] > 0).astype(int), **y}
    free = JointNormal(exclude=["x0"])
    with pytest.raises(steropes.SeparationError, match=r"Outcome 'apart'.*'x0'"):
        steropes.fit_many(LogisticRegression(prior=free), X, separated)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (steropes.CoxRegression, {}, "their rows are independent"),
        (steropes.GammaRegression, {}, "their rows are independent"),
        (LogisticRegression, {"solver": "ccd"}, "solver='newton'"),
        (LogisticRegression, {"device": "cuda"}, "on the CPU"),
        (LogisticRegression, {"cv": steropes.InformationCriterion("bic")}, "cross-validation"),
        (LogisticRegression, {"cv": CrossValidation(5, scoring="auc")}, "scoring='auc'"),
    ],
)
def test_models_and_settings_without_priors_across_outcomes_are_refused(
    simulated: tuple[np.ndarray, dict[str, np.ndarray]],
    model: Any, options: dict[str, Any], message: str,
) -> None:  # fmt: skip
    X, _ = simulated
    y: Any = np.random.default_rng(0).uniform(1, 2, len(X))
    if model is steropes.CoxRegression:
        y = steropes.Surv(y, np.ones(len(X)))
    elif model is LogisticRegression:
        y = (y > 1.5).astype(int)
    with pytest.raises(DataError, match=message):
        steropes.fit_many(model(prior=JointLaplace(), **options), X, {"a": y, "b": y})


def test_arguments_of_separate_fits_are_refused(
    simulated: tuple[np.ndarray, dict[str, np.ndarray]], tmp_path: Any,
) -> None:  # fmt: skip
    X, outcomes = simulated
    model = LogisticRegression(prior=JointLaplace(), cv=5)
    with pytest.raises(DataError, match="Leave shared_prior out"):
        steropes.fit_many(model, X, outcomes, shared_prior=True)
    with pytest.raises(DataError, match="store"):
        steropes.fit_many(model, X, outcomes, store=tmp_path)
    with pytest.raises(DataError, match="JointNormal's variance must be a positive number"):
        steropes.fit_many(LogisticRegression(prior=JointNormal(variance=0)), X, outcomes)
    with pytest.raises(DataError, match="JointNormal's mean_variance must be a positive"):
        steropes.fit_many(LogisticRegression(prior=JointNormal(mean_variance=0)), X, outcomes)


def test_rare_outcomes_gain_from_frequent_ones_with_related_effects() -> None:
    rng = np.random.default_rng(7)
    errors: dict[str, list[float]] = {"separate": [], "together": []}
    for _ in range(4):
        X = rng.standard_normal((2000, 6))
        beta = rng.normal(0, 0.6, (6, 1)) + rng.normal(0, 0.1, (6, 4))
        Y = rng.binomial(1, expit(X @ beta - [0.0, 1.0, 2.0, 5.0]))
        outcomes = {f"y{k}": Y[:, k] for k in range(4)}
        for name, prior in (
            ("separate", steropes.Normal(0.4)),
            ("together", JointNormal(variance=0.01, mean_variance=0.4)),
        ):
            found = coefficients(steropes.fit_many(LogisticRegression(prior=prior), X, outcomes))
            errors[name].append(float(((found[3] - beta[:, 3]) ** 2).mean()))
    assert np.mean(errors["together"]) < 0.5 * np.mean(errors["separate"])
