"""Rules of choice: one standard error, several settings, the published search, criteria."""

import numpy as np
import pytest
from scipy.special import gammaln
from sklearn.linear_model import Ridge

from every_family import EVERY, case
from steropes import (
    BrokenAdaptiveRidge,
    CoxRegression,
    CrossValidation,
    CyclopsSearch,
    DataError,
    ElasticNet,
    Hierarchical,
    InformationCriterion,
    Jeffreys,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    Surv,
    glmnet_lambda,
    variance_from_glmnet,
)
from steropes.design_matrix import as_design
from steropes.select.cyclops_search import mean_square, next_variance
from tuning import tune_path


def logistic(rng, n=400, p=20, effects=3):
    X = rng.normal(size=(n, p))
    eta = X[:, :effects].sum(axis=1) * 0.6
    return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)


# -- one standard error ----------------------------------------------------------------------------


@pytest.mark.parametrize("search", ["auto", [0.002, 0.005, 0.01, 0.02, 0.05, 0.1]])
def test_the_simplest_within_one_standard_error_is_chosen(search, rng):
    X, y = logistic(rng)
    cv = CrossValidation(5, search=search, rule="one_standard_error", random_state=1)
    model = LogisticRegression(prior=Laplace(), cv=cv).fit(X, y)
    table = model.cv_results_
    best = table["mean"].idxmax()
    good = table["mean"] >= table["mean"][best] - table["se"][best]
    assert model.variance_ == table["variance"][good].min() < table["variance"][best]
    if search == "auto":  # found to a tenth
        worse = table["variance"][table["variance"] < model.variance_].max()
        assert np.log(model.variance_ / worse) < 0.1
    alone = LogisticRegression(prior=Laplace(model.variance_)).fit(X, y)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-7)


# cv.glmnet(X, y, family = "binomial", foldid = fold + 1, lambda = lambda, standardize = FALSE,
#   thresh = 1e-12), glmnet 4.1: lambda.min and lambda.1se.
def test_the_choices_are_those_of_glmnet():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 20))
    y = (rng.random(400) < 1 / (1 + np.exp(-X[:, :3].sum(axis=1) * 0.6))).astype(int)
    fold = rng.permutation(np.arange(400) % 5)
    splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(5)]
    grid = variance_from_glmnet(np.geomspace(0.2, 0.002, 30), 320)
    cv = CrossValidation(splits, search=grid, rule="one_standard_error")
    model = LogisticRegression(prior=Laplace(), cv=cv).fit(X, y)
    np.testing.assert_allclose(glmnet_lambda(model.variance_, 320), 0.05614432, rtol=1e-6)
    best = model.cv_results_["variance"][model.cv_results_["mean"].idxmax()]
    np.testing.assert_allclose(glmnet_lambda(best, 320), 0.02974704, rtol=1e-6)


def test_repeats_leave_the_standard_error_as_wide_as_one_cut():
    rng = np.random.default_rng(3)
    X, y = logistic(rng)
    grid = np.geomspace(0.002, 0.2, 8)
    cv = CrossValidation(5, repeats=4, search=grid, rule="one_standard_error", random_state=1)
    model = LogisticRegression(prior=Laplace(), cv=cv).fit(X, y)
    table = model.cv_results_
    best = table["mean"].idxmax()
    scores = table.filter(like="fold").to_numpy()
    se = scores[best].std(ddof=1) / np.sqrt(5)
    good = table["mean"] >= table["mean"][best] - se
    assert model.variance_ == table["variance"][good].min()


@pytest.mark.parametrize("prior", [Laplace(exclude=[0]), Normal(exclude=[0])], ids=str)
def test_where_no_covariate_is_needed_smaller_variances_are_not_gone_through(prior, rng):
    """The model with the column that has no prior alone is within one standard error."""
    X, y = logistic(rng, 300, 6, 1)
    cv = CrossValidation(5, rule="one_standard_error", random_state=1)
    model = LogisticRegression(prior=prior, cv=cv).fit(X, y)
    table = model.cv_results_
    best = table["mean"].idxmax()
    assert table["mean"][0] > table["mean"][best] - table["se"][best]
    assert model.variance_ == table["variance"][0]
    assert len(table) < 15
    assert np.abs(model.coef_[1:]).max() < 0.01 < np.abs(model.coef_[0])
    assert table["nonzero"][0] == (0 if isinstance(prior, Laplace) else 5)


def test_one_fold_has_no_standard_error(rng):
    X, y = logistic(rng, 100, 3, 1)
    split = [(np.arange(50), np.arange(50, 100))]
    cv = CrossValidation(split, rule="one_standard_error")
    with pytest.raises(DataError, match="two folds"):
        LogisticRegression(prior=Laplace(), cv=cv).fit(X, y)


@pytest.mark.sampled
@pytest.mark.parametrize("family", ["linear", "logistic", "poisson", "cox", "cumulative"])
def test_a_search_on_one_fold_ends_beyond_its_best(rng, monkeypatch, family):
    c = case(family, rng, n=300, p=9)
    rows = np.arange(300)
    split = [(rows[rows % 3 > 0], rows[rows % 3 == 0])]
    table = c.fit(prior=Laplace(), cv=CrossValidation(split)).cv_results_
    best = table["mean"].idxmax()
    fine = table["variance"][best] * np.exp(np.linspace(-2, 2, 21))
    others = c.fit(prior=Laplace(), cv=CrossValidation(split, search=fine)).cv_results_
    assert table["mean"][best] > others["mean"].max() - 0.02 * np.ptp(table["mean"])
    assert len(table) < 25
    assert table["variance"].iloc[-1] < 1e3 * table["variance"][best]
    tune_path(monkeypatch, min_nonzero_for_slope=0)
    assert "slope" not in c.fit(prior=Laplace(), cv=CrossValidation(split)).cv_results_


# -- several settings ------------------------------------------------------------------------------


def test_an_elastic_net_has_both_variances_chosen_on_the_same_folds(rng):
    X, y = logistic(rng)
    X[:, 1] = X[:, 0] + 0.1 * rng.normal(size=len(X))
    cv = CrossValidation(
        5, search=[0.01, 0.1], compare={"normal_variance": [0.05, 5.0]}, random_state=1
    )
    model = LogisticRegression(prior=ElasticNet(1.0, 1.0), cv=cv).fit(X, y)
    table = model.cv_results_
    assert list(table["normal_variance"]) == [0.05, 0.05, 5.0, 5.0]
    for own, variance in [(0.05, 0.01), (0.05, 0.1), (5.0, 0.01), (5.0, 0.1)]:
        one = CrossValidation(5, search=[variance], random_state=cv_seed(1))
        alone = LogisticRegression(prior=ElasticNet(variance, own), cv=one).fit(X, y)
        row = table[(table["normal_variance"] == own) & (table["variance"] == variance)]
        np.testing.assert_allclose(row["mean"], alone.cv_results_["mean"], rtol=1e-6)
    best = table.loc[table["mean"].idxmax()]
    assert model.variance_ == best["variance"]
    assert model.prior_ == ElasticNet(best["variance"], best["normal_variance"])
    assert type(model.prior_) is ElasticNet


def cv_seed(seed):
    """What several priors share."""
    return int(np.random.default_rng(seed).integers(2**63))


def test_relative_variances_of_groups_of_columns_are_compared(rng):
    X, y = logistic(rng, p=6, effects=3)
    true = [4.0] * 3 + [0.25] * 3
    prior = Normal()
    cv = CrossValidation(
        3, search=[0.1, 1.0], compare={"variance": [[1.0] * 6, true, true[::-1]]}, random_state=1
    )
    model = LogisticRegression(prior=prior, cv=cv).fit(X, y)
    assert sorted(set(model.cv_results_["prior__variance"])) == [0, 1, 2]
    ratio = model.prior_.variance[0] / model.prior_.variance[-1]
    np.testing.assert_allclose(ratio, 16.0)


def test_a_hierarchical_prior_compares_its_own_and_what_is_asked(rng):
    X, y = logistic(rng, p=4)
    prior = Hierarchical([0, 0, 1, 1], group_variance=[0.1, 1.0])
    cv = CrossValidation(3, search=[0.1], compare={"exclude": [(), (0,)]}, random_state=1)
    model = LogisticRegression(prior=prior, cv=cv).fit(X, y)
    assert list(model.cv_results_["exclude"]) == [0, 0, 1, 1]
    assert list(model.cv_results_["group_variance"]) == [0.1, 1.0, 0.1, 1.0]


@pytest.mark.parametrize(
    ("prior", "compare", "why"),
    [
        (Laplace(), {"variance": [0.1, 1.0]}, "moves itself"),
        (Laplace(), {"normal_variance": [1.0]}, "has not"),
        (Laplace(), {"exclude": []}, "no values"),
        (Laplace(), {"exclude": "x1"}, "no values"),
        (Laplace(), {}, "must map"),
        (Laplace(), ["variance"], "must map"),
    ],
)
def test_what_can_not_be_compared_is_refused(prior, compare, why, rng):
    X, y = logistic(rng, 60, 3, 1)
    cv = CrossValidation(2, compare=compare)
    with pytest.raises(DataError, match=why):
        LogisticRegression(prior=prior, cv=cv).fit(X, y)


# -- the published search --------------------------------------------------------------------------


def tried(f, x, sd=1.0):
    return {v: (f(np.log(v)), sd) for v in x}


def test_the_published_steps_are_by_ten_towards_the_better_side():
    up = tried(lambda x: x - 1e3, [0.01])
    assert next_variance(up, 10.0) == (True, 0.1)
    assert next_variance(tried(lambda x: x, [4.0]), 10.0) == (True, 0.4)
    assert next_variance(tried(lambda x: x - 1e3, [0.01, 0.1]), 10.0) == (True, 1.0)
    assert next_variance(tried(lambda x: -x - 1e3, [0.01, 0.1]), 10.0) == (True, 0.001)
    assert next_variance(tried(lambda x: x - 1e3, [0.01, 0.1, 1.0]), 10.0) == (True, 10.0)


def test_the_parabola_is_weighted_and_its_top_is_the_choice():
    x = np.array([1e-3, 1e-2, 1e-1, 1.0, 10.0])
    mean = np.array([-120.0, -101.0, -100.0, -108.0, -131.0]) - 1e5
    sd = np.array([3.0, 1.0, 0.5, 2.0, 4.0])
    done = {v: (m, s) for v, m, s in zip(x, mean, sd, strict=True)}
    c2, c1, _ = np.polyfit(np.log(x), mean, 2, w=np.sqrt(1 / sd))
    more, top = next_variance(done, 10.0)
    np.testing.assert_allclose(top, np.exp(-c1 / c2 / 2), rtol=1e-6)
    assert not more  # it promises less than 1 % of the score


def test_a_parabola_whose_top_is_beyond_all_numbers_ends_the_published_search_at_the_best():
    x = 10.0 ** np.arange(-2, 3)
    mean = np.array([-2.0, -4.0, 1e-4, 4.0, 2.0]) - 100.0  # all but odd: a straight line fits best
    upwards = {v: (m, 1.0) for v, m in zip(x, mean, strict=True)}
    downwards = {v: (m, 1.0) for v, m in zip(x, mean[::-1], strict=True)}
    assert next_variance(upwards, 10.0) == (False, 10.0)
    assert next_variance(downwards, 10.0) == (False, 0.1)


def test_the_published_search_gives_its_variance_and_evaluates_it(rng):
    X, y = logistic(rng)
    cv = CrossValidation(5, search=CyclopsSearch(start=0.01), random_state=1)
    model = LogisticRegression(prior=Laplace(), cv=cv).fit(X, y)
    table = model.cv_results_
    last = table["variance"] != model.variance_
    x, mean = np.log(table["variance"][last]), table["mean"][last]
    sd = table.filter(like="fold").to_numpy()[last].std(axis=1)
    assert {0.01, 0.1, 1.0} <= set(table["variance"])
    c2, c1, _ = np.polyfit(x, mean, 2, w=np.sqrt(1 / sd))
    np.testing.assert_allclose(model.variance_, np.exp(-c1 / c2 / 2), rtol=1e-6)
    assert (table["variance"] == model.variance_).sum() == 1


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_its_start_is_the_mean_square_of_x(storage, rng):
    from scipy import sparse

    X = rng.normal(size=(50, 4)) * 1e3 + 2e3
    X[rng.random(X.shape) < 0.5] = 0.0
    given = X if storage == "dense" else sparse.csr_array(X)
    design = as_design(given).centered().with_intercept()
    np.testing.assert_allclose(mean_square(design), (X**2).mean(), rtol=1e-9)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"search": CyclopsSearch(start=0.0)}, "positive variance"),
        ({"search": CyclopsSearch(factor=1.0)}, "above 1"),
        ({"search": CyclopsSearch(steps=0)}, "steps"),
        ({"search": CyclopsSearch(), "rule": "one_standard_error"}, "rule of its own"),
        ({"rule": "simplest"}, "rule must be"),
    ],
)
def test_searches_that_make_no_sense_are_refused(settings, why):
    with pytest.raises(DataError, match=why):
        CrossValidation(5, **settings).check()


def test_effects_by_step_need_a_start(rng):
    X = rng.normal(size=(60, 2))
    y = Surv(rng.exponential(size=60), rng.random(60) < 0.8)
    model = CoxRegression(time_varying={0: [0.5]}, prior=Laplace())
    with pytest.raises(DataError, match="start="):
        model.set_params(cv=CrossValidation(2, search=CyclopsSearch())).fit(X, y)
    model.set_params(cv=CrossValidation(2, search=CyclopsSearch(start=0.1))).fit(X, y)
    assert model.variance_ in set(model.cv_results_["variance"])


# -- information criteria --------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("name", EVERY)
def test_the_criterion_of_the_choice_is_that_of_the_fit(name, rng):
    c = case(name, rng)
    for kind in ("aic", "bic"):
        cv = InformationCriterion(kind, search=[0.02, 0.2])
        model = c.fit(prior=Laplace(), cv=cv)
        table = model.cv_results_
        own = model.aic_ if kind == "aic" else model.bic_
        np.testing.assert_allclose(table["criterion"].min(), own, rtol=1e-6)
        assert model.variance_ == table["variance"][table["criterion"].idxmin()]


def test_the_walk_ends_past_the_smallest_criterion_and_looks_closely_around_it(rng):
    X, y = logistic(rng)
    model = LogisticRegression(prior=Laplace(), cv=InformationCriterion("bic")).fit(X, y)
    table = model.cv_results_
    at = table["criterion"].idxmin()
    assert 0 < at < len(table) - 5
    assert np.log(table["variance"][at + 1] / table["variance"][at]) < 0.2
    dense = np.geomspace(table["variance"].min(), table["variance"].max(), 40)
    listed = InformationCriterion("bic", search=dense)
    close = LogisticRegression(prior=Laplace(), cv=listed).fit(X, y).cv_results_
    assert table["criterion"].min() < close["criterion"].min() + 1.0


def test_ebic_charges_for_the_number_of_models(rng):
    X, y = logistic(rng)
    grid = np.geomspace(0.003, 0.3, 5)
    plain = LogisticRegression(
        prior=Laplace(exclude=0), cv=InformationCriterion("bic", search=grid)
    )
    dear = LogisticRegression(
        prior=Laplace(exclude=0), cv=InformationCriterion("ebic", 1.0, search=grid)
    )
    a, b = plain.fit(X, y).cv_results_, dear.fit(X, y).cv_results_
    k, p = a["df"] - 2, 19  # the intercept and the excluded column are not chosen
    price = 2 * (gammaln(p + 1) - gammaln(k + 1) - gammaln(p - k + 1))
    np.testing.assert_allclose(b["criterion"], a["criterion"] + price)
    assert dear.variance_ <= plain.variance_


def test_a_ridge_has_the_degrees_of_freedom_of_its_trace(rng):
    X = rng.normal(size=(80, 6))
    y = X[:, 0] + rng.normal(size=80)
    model = LinearRegression(prior=Normal(), cv=InformationCriterion("aic")).fit(X, y)
    row = model.cv_results_.set_index("variance").loc[model.variance_]
    kappa = 1 / model.variance_
    hat = Ridge(alpha=kappa).fit(X, y)
    rss = ((y - hat.predict(X)) ** 2).sum()
    Z = X - X.mean(axis=0)
    df = 2 + np.trace(np.linalg.solve(Z.T @ Z + kappa * np.eye(6), Z.T @ Z))
    np.testing.assert_allclose(row["df"], df)
    loglik = -40 * (np.log(2 * np.pi * rss / 80) + 1)
    np.testing.assert_allclose(row["criterion"], -2 * loglik + 2 * df)


def test_bootstrap_draws_choose_anew_by_the_criterion(rng):
    X, y = logistic(rng, 200, 6, 2)
    model = LogisticRegression(prior=Laplace(), cv=InformationCriterion("bic", search=[0.01, 0.1]))
    draws = model.fit(X, y).inference.bootstrap(4, reselect=True, random_state=1)
    assert set(draws.variance) <= {0.01, 0.1}


def test_priors_and_settings_without_a_criterion_are_refused(rng):
    X, y = logistic(rng, 80, 3, 1)
    for settings, why in (
        ({"kind": "cp"}, "kind must be"),
        ({"gamma": 2.0}, "gamma"),
        ({"search": CyclopsSearch()}, "cross-validation"),
        ({"search": [0.0]}, "positive"),
    ):
        with pytest.raises(DataError, match=why):
            LogisticRegression(prior=Laplace(), cv=InformationCriterion(**settings)).fit(X, y)
    with pytest.raises(DataError, match="no variance to choose"):
        LogisticRegression(prior=Jeffreys(), cv=InformationCriterion()).fit(X, y)
    with pytest.raises(DataError, match=r"InformationCriterion\(search"):
        LogisticRegression(prior=BrokenAdaptiveRidge(), cv=InformationCriterion()).fit(X, y)
    with pytest.raises(DataError, match="folds must be a whole number"):
        LogisticRegression(prior=Laplace(), cv="bic").fit(X, y)
    cv = InformationCriterion(search=[0.2, 0.5])
    model = LogisticRegression(prior=BrokenAdaptiveRidge(), cv=cv).fit(X, y)
    np.testing.assert_allclose(model.cv_results_["criterion"].min(), model.bic_, rtol=1e-6)
