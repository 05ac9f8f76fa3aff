"""One prior for several outcomes, chosen by the sum of their held-out log-likelihoods."""

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import block_diag
from sklearn.model_selection import KFold

from steropes import (
    CoxRegression,
    CrossValidation,
    ElasticNet,
    Hierarchical,
    InformationCriterion,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    Surv,
    fit_many,
)
from steropes.errors import DataError

N, P = 240, 6
SPLITS = list(KFold(4, shuffle=True, random_state=1).split(np.zeros(N)))
GRID = [0.01, 0.04, 0.15, 0.6, 2.5]
EXACT = {"tol": 1e-11, "max_iter": 500}


@pytest.fixture
def X():
    return np.random.default_rng(4).standard_normal((N, P))


@pytest.fixture
def outcomes(X):
    """Three related outcomes, of which one is rare."""
    rng = np.random.default_rng(5)
    found = {}
    for name, base in (("angina", -0.5), ("infarction", -1.0), ("stroke", -2.5)):
        beta = np.array([0.9, -0.6, 0.3, 0, 0, 0]) + 0.1 * rng.standard_normal(P)
        found[name] = (rng.random(N) < 1 / (1 + np.exp(-base - X @ beta))).astype(int)
    return found


def held_out(prior, X, y):
    """The sum of the folds' held-out log-likelihoods, by separate fits."""
    total = 0.0
    for train, test in SPLITS:
        model = LogisticRegression(prior=prior, **EXACT).fit(X[train], y[train])
        eta = model.intercept_ + X[test] @ model.coef_
        total += float((y[test] * eta - np.logaddexp(0, eta)).sum())
    return total


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Laplace, Normal])
def test_the_variance_has_the_largest_sum_of_held_out_log_likelihoods(X, outcomes, kind):
    cv = CrossValidation(SPLITS, search=GRID, tol=1e-9)
    table = fit_many(LogisticRegression(prior=kind(), cv=cv), X, outcomes, shared_prior=True)
    sums = [sum(held_out(kind(v), X, y) for y in outcomes.values()) for v in GRID]
    found = table.attrs["cv_results"]
    assert found["variance"] == GRID
    np.testing.assert_allclose(np.array(found["mean"]) * len(SPLITS), sums, rtol=0, atol=1e-5)
    assert set(table["variance"]) == {GRID[int(np.argmax(sums))]}
    own = [GRID[int(np.argmax([held_out(kind(v), X, y) for v in GRID]))] for y in outcomes.values()]
    assert len(set(own)) > 1  # Chosen alone, the outcomes differ.


def test_the_search_finds_the_maximum_of_a_fine_grid(X, outcomes):
    model = LogisticRegression(prior=Normal(), cv=CrossValidation(SPLITS, tol=1e-9))
    table = fit_many(model, X, outcomes, shared_prior=True)
    fine = np.geomspace(0.03, 3, 8)
    sums = [sum(held_out(Normal(v), X, y) for y in outcomes.values()) for v in fine]
    chosen = table["variance"].iloc[0]
    at_chosen = sum(held_out(Normal(chosen), X, y) for y in outcomes.values())
    # The search ends when the mean score is flat to a hundredth of its standard error.
    se = table.attrs["cv_results"]["se"][table.attrs["cv_results"]["variance"].index(chosen)]
    assert at_chosen >= max(sums) - 0.02 * se * len(SPLITS)


def test_the_fits_equal_one_fit_of_stacked_blocks(X, outcomes):
    cv = CrossValidation(SPLITS, search=GRID)
    model = LogisticRegression(prior=Laplace(), cv=cv, **EXACT)
    table = fit_many(model, X, outcomes, shared_prior=True)
    blocks = block_diag(*[np.column_stack([np.ones(N), X])] * len(outcomes))
    intercepts = [k * (P + 1) for k in range(len(outcomes))]
    prior = Laplace(table["variance"].iloc[0], exclude=intercepts)
    stacked = LogisticRegression(prior=prior, fit_intercept=False, **EXACT)
    stacked.fit(blocks, np.concatenate(list(outcomes.values())))
    assert table["converged"].all()
    np.testing.assert_allclose(table["coef"], stacked.coef_, rtol=0, atol=1e-8)


def test_survival_outcomes_equal_a_stratified_fit(X):
    rng = np.random.default_rng(6)
    y = {
        name: Surv(rng.exponential(np.exp(-X[:, 0])), rng.random(N) < share)
        for name, share in (("common", 0.8), ("rare", 0.2))
    }
    model = CoxRegression(prior=Normal(), cv=CrossValidation(SPLITS, search=GRID), **EXACT)
    table = fit_many(model, X, y, shared_prior=True)
    stacked = CoxRegression(prior=Normal(table["variance"].iloc[0]), **EXACT)
    stacked.fit(block_diag(X, X), np.concatenate(list(y.values())), strata=np.repeat(list(y), N))
    np.testing.assert_allclose(table["coef"], stacked.coef_, rtol=0, atol=1e-8)


def test_one_outcome_has_the_choice_of_its_own_fit(X, outcomes):
    cv = CrossValidation(5, random_state=3)
    model = PoissonRegression(prior=Laplace(), cv=cv)
    y = outcomes["angina"]
    table = fit_many(model, X, {"angina": y}, shared_prior=True)
    alone = model.fit(X, y)
    assert table["variance"].iloc[0] == alone.variance_
    assert table.attrs["cv_results"]["mean"] == alone.cv_results_["mean"].tolist()


def test_outcomes_too_rare_for_folds_get_the_variance_of_the_others(X):
    rng = np.random.default_rng(7)
    time, single = rng.exponential(np.exp(-X[:, 0])), np.arange(N) == np.argsort(X[:, 1])[N // 2]
    y = {"common": Surv(time, rng.random(N) < 0.8)}
    model = CoxRegression(prior=Normal(), cv=CrossValidation(SPLITS, search=GRID))
    alone = fit_many(model, X, y, shared_prior=True)
    y |= {"rare": Surv(time, single), "none": Surv(time, single & False)}
    table = fit_many(model, X, y, shared_prior=True)
    assert set(table["variance"]) == set(alone["variance"])
    assert table.attrs["cv_results"] == alone.attrs["cv_results"]
    found = table.set_index("outcome")
    assert (
        found.loc["rare", "note"]
        .str.startswith("Took no part in the choice of the variance: ")
        .all()
    )
    assert found.loc["rare", "coef"].notna().all()
    assert found.loc["none", "coef"].isna().all()


def test_finished_outcomes_are_stored(X, outcomes, tmp_path):
    cv = CrossValidation(SPLITS, search=GRID)
    model = LogisticRegression(prior=Laplace(), cv=cv)
    first = fit_many(model, X, outcomes, shared_prior=True, store=tmp_path)
    assert list(tmp_path.iterdir())
    again = fit_many(model, X, outcomes, shared_prior=True, store=tmp_path)
    pd.testing.assert_frame_equal(first, again)


def test_a_hierarchical_prior_can_be_shared(X, outcomes):
    prior = Hierarchical(groups=["a"] * 3 + ["b"] * 3)
    model = LogisticRegression(prior=prior, cv=CrossValidation(SPLITS, search=[0.01, 0.1, 1.0]))
    table = fit_many(model, X, outcomes, shared_prior=True)
    assert table["converged"].all()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"prior": Normal()}, "needs cv"),
        ({"cv": 5}, "needs a prior"),
        ({"prior": Normal(), "cv": InformationCriterion("bic")}, "to be a CrossValidation"),
        (
            {"prior": Normal(), "cv": CrossValidation(scoring="auc")},
            "leave scoring='held_out'",
        ),
        (
            {
                "prior": ElasticNet(1.0, 1.0),
                "cv": CrossValidation(compare={"normal_variance": [1.0, 2.0]}),
            },
            "leave compare out",
        ),
    ],
)
def test_a_choice_of_anything_but_a_variance_is_refused(X, outcomes, settings, reason):
    with pytest.raises(DataError, match=reason):
        fit_many(LogisticRegression(**settings), X, outcomes, shared_prior=True)


def test_no_usable_outcome_is_an_error(X):
    with pytest.raises(DataError, match="No outcome can be cross-validated"):
        fit_many(
            LinearRegression(prior=Normal(), cv=5), X, {"y": np.full(3, 1.0)}, shared_prior=True
        )
