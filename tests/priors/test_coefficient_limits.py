"""Lower and upper limits of coefficients: bounded solvers, optimality conditions and refusals."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, sparse
from sklearn.base import clone

from every_family import EVERY, case
from steropes import (
    CoxRegression,
    CrossValidation,
    CumulativeProbabilityModel,
    DataError,
    ElasticNet,
    InformationCriterion,
    Laplace,
    LinearRegression,
    LogisticRegression,
    MultinomialLogisticRegression,
    Normal,
    PoissonRegression,
    SeparationError,
    ShardedDesign,
    Surv,
    coefficient_path,
    fit_many,
)
from steropes.priors import LimitedPenalty

P = 8
LOWER = np.array([0.0, 0.0, -np.inf, -0.2, 0.0, -np.inf, 0.0, -0.05])
UPPER = np.array([0.3, np.inf, np.inf, np.inf, 0.0, 0.1, np.inf, 0.05])
PRIORS = {
    "lasso": (Laplace(0.05, lower=LOWER, upper=UPPER), np.sqrt(2 / 0.05), 0.0),
    "ridge": (Normal(0.5, lower=LOWER, upper=UPPER), 0.0, 2.0),
    "elastic net": (ElasticNet(0.05, 0.5, lower=LOWER, upper=UPPER), np.sqrt(2 / 0.05), 2.0),
    "none": (Laplace(np.inf, lower=LOWER, upper=UPPER), 0.0, 0.0),
}


def data(rng, n=300):
    X = rng.normal(size=(n, P))
    X[:, 1] += X[:, 0]
    X[:, 6] = rng.random(n) < 0.3
    return X, X[:, :4] @ [1.0, -1.0, 0.8, -0.5] + 0.4 * X[:, 6]


def bounded(loss, l1, l2, lower=LOWER, upper=UPPER):
    """SciPy's L-BFGS-B for an intercept and β = β⁺ − β⁻, both within their limits."""
    p = len(lower)

    def objective(v):
        b = v[1 : p + 1] - v[p + 1 :]
        value, g0, g = loss(v[0], b)
        value += l1 * v[1:].sum() + 0.5 * l2 * b @ b
        return value, np.concatenate([[g0], g + l1 + l2 * b, -g + l1 - l2 * b])

    bounds = [(None, None), *((0, u) for u in upper), *((0, -x) for x in lower)]
    end = optimize.minimize(
        objective, np.zeros(2 * p + 1), jac=True, method="L-BFGS-B",
        bounds=[(a, None if b == np.inf else b) for a, b in bounds],
        options={"maxiter": 20000, "maxfun": 100000, "ftol": 1e-15, "gtol": 1e-9},
    )  # fmt: skip
    return end.x[1 : p + 1] - end.x[p + 1 :]


def violation(model, X, g, l1, l2, lower, upper):
    """The largest violation of the conditions by hand, without units."""
    b, s = model.coef_, g + l2 * model.coef_
    out = []
    for j, slope in enumerate(s):
        if lower[j] < b[j] < upper[j] and b[j] != 0:
            out.append(abs(slope + l1 * np.sign(b[j])))
            continue
        up = slope + (l1 if b[j] >= 0 else -l1)  # derivatives of the objective to either side
        down = slope + (l1 if b[j] > 0 else -l1)
        out.append(max(-up if b[j] < upper[j] else 0.0, down if b[j] > lower[j] else 0.0, 0.0))
    assert (b >= lower).all()
    assert (b <= upper).all()
    return max(out)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
def test_limits_give_the_optimum_of_a_bounded_solver(family, prior, rng):
    X, eta = data(rng)
    if family == "linear":
        y, model = eta + rng.normal(size=len(eta)), LinearRegression
    elif family == "logistic":
        y, model = (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))) * 1, LogisticRegression
    else:
        y, model = rng.poisson(np.exp(0.5 * eta)), PoissonRegression

    def loss(b0, b):
        e = b0 + X @ b
        if family == "linear":
            value, r = 0.5 * ((y - e) ** 2).sum(), e - y
        elif family == "logistic":
            value, r = np.logaddexp(0, e).sum() - y @ e, 1 / (1 + np.exp(-e)) - y
        else:
            value, r = np.exp(e).sum() - y @ e, np.exp(e) - y
        return value, r.sum(), X.T @ r

    given, l1, l2 = PRIORS[prior]
    found = model(prior=given).fit(X, y)
    assert found.converged_
    np.testing.assert_allclose(found.coef_, bounded(loss, l1, l2), atol=2e-6)
    assert (found.coef_ == LOWER).any()  # exactly
    assert (found.coef_ == UPPER).any()
    g = loss(found.intercept_, found.coef_)[2]
    assert violation(found, X, g, l1, l2, LOWER, UPPER) < 1e-5


@pytest.mark.parametrize("prior", ["lasso", "ridge", "none"])
def test_a_cox_model_within_limits_is_that_of_a_bounded_solver(prior, rng):
    X, eta = data(rng)
    time = rng.exponential(np.exp(-eta / 2))
    event = rng.random(len(eta)) < 0.7

    def loss(_, b):
        value, g, e = 0.0, np.zeros(P), X @ b
        for i in np.flatnonzero(event):
            at = time >= time[i]
            w = np.exp(e[at])
            value += np.log(w.sum()) - e[i]
            g += w @ X[at] / w.sum() - X[i]
        return value, 0.0, g

    given, l1, l2 = PRIORS[prior]
    found = CoxRegression(prior=given, ties="breslow").fit(X, Surv(time, event))
    assert found.converged_
    np.testing.assert_allclose(found.coef_, bounded(loss, l1, l2), atol=2e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("prior", [Laplace(0.5), Normal(0.5), Laplace(np.inf)], ids=repr)
@pytest.mark.parametrize("family", EVERY)
def test_every_family_finds_the_best_point_within_limits(family, prior, rng):
    """The limits halve the coefficients without limits; a random feasible point is no better."""
    made = case(family, rng)
    free = made.fit(prior=prior)
    half = np.abs(free.coef_) / 2 + 1e-3
    by_step = free.coef_.shape != (made.X.shape[1],)
    limits = dict.fromkeys(("lower", "upper"), half.min()) if by_step else {"upper": half}
    limits = {"lower": -np.asarray(limits["upper"]), "upper": limits["upper"]}
    model = made.fit(prior=type(prior)(prior.variance, **limits))
    assert model.converged_
    assert (np.abs(model.coef_) <= limits["upper"]).all()
    assert (np.abs(model.coef_) == limits["upper"]).any()
    l1, l2 = model._problem.penalties(model.prior_)
    first = len(l1) - len(model.coef_)

    def objective(fit):
        b = fit.coef_
        return -fit.log_likelihood_ + l1[first:] @ np.abs(b) + 0.5 * l2[first:] @ (b * b)

    assert objective(free) < objective(model)
    wide = made.fit(prior=type(prior)(prior.variance, lower=-50.0, upper=50.0))
    np.testing.assert_allclose(wide.coef_, free.coef_, atol=1e-6)
    if not by_step:  # moving a coefficient off its limit, or along the feasible set, is worse
        fixed = {j: 0.95 * float(b) for j, b in enumerate(model.coef_) if abs(b) == half[j]}
        if len(fixed) < len(half):
            assert objective(made.model(**made.settings, prior=model.prior_).fit(
                made.X, made.y, **made.extras, fixed=fixed
            )) >= objective(model) - 1e-9  # fmt: skip


@pytest.mark.parametrize("as_x", [np.asarray, sparse.csc_array, pd.DataFrame])
def test_limits_are_in_the_units_of_x(as_x, rng):
    X, eta = data(rng)
    y = eta + rng.normal(size=len(eta))
    unit = np.array([1.0, 1e-3, 2e4, 3.0, 1.0, 1.0, 7.0, 1.0])
    first = LinearRegression(prior=Laplace(np.inf, lower=-0.1, upper=0.2)).fit(X, y)
    prior = Laplace(np.inf, lower=-0.1 * unit, upper=0.2 * unit)
    second = LinearRegression(prior=prior).fit(as_x(X / unit), y)
    np.testing.assert_allclose(second.coef_ / unit, first.coef_, atol=1e-7)
    at = (first.coef_ == 0.2) | (first.coef_ == -0.1)
    assert at.any()
    np.testing.assert_array_equal((second.coef_ == prior.upper) | (second.coef_ == prior.lower), at)


def test_nonnegative_least_squares(rng):
    X, eta = data(rng)
    y = eta + rng.normal(size=len(eta))
    model = LinearRegression(prior=Normal(np.inf, lower=0), fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.coef_, optimize.nnls(X, y)[0], atol=1e-8)


def test_more_columns_than_rows(rng):
    X = rng.normal(size=(60, 400))
    y = X[:, :5] @ [1.0, 1.0, -1.0, 2.0, -2.0] + rng.normal(size=60)
    model = LinearRegression(prior=Laplace(0.05, lower=0, upper=0.8)).fit(X, y)
    assert model.converged_
    lam = np.sqrt(2 / 0.05)
    g = X.T @ (model.predict(X) - y)
    assert violation(model, X, g, lam, 0.0, np.zeros(400), np.full(400, 0.8)) < 1e-6 * lam
    assert 0 < np.count_nonzero(model.coef_) < 60


def test_limits_by_name_by_level_and_by_position(rng):
    table = pd.DataFrame({"age": rng.normal(size=200), "sex": rng.choice(["f", "m"], 200)})
    y = -table["age"] - (table["sex"] == "m") + rng.normal(size=200)
    named = Laplace(1.0, lower={"sex[T.m]": -0.5}, upper={"age": 0.1})
    model = LinearRegression(prior=named).fit(table, y)
    same = LinearRegression(prior=Laplace(1.0, lower=[-np.inf, -0.5], upper=[0.1, np.inf]))
    assert model.coef_[1] == -0.5
    assert model.coef_[0] < -0.5
    np.testing.assert_array_equal(same.fit(table, y).coef_, model.coef_)


def test_excluded_and_fixed_columns_keep_their_limits(rng):
    X, eta = data(rng)
    y = eta + rng.normal(size=len(eta))
    prior = Laplace(0.1, exclude=[0], lower=LOWER, upper=UPPER)
    model = LinearRegression(prior=prior).fit(X, y, fixed={2: 0.5})
    assert model.coef_[2] == 0.5
    lam, kept = np.sqrt(2 / 0.1), np.arange(P) != 2
    part = LinearRegression(
        prior=Laplace(0.1, exclude=[0], lower=LOWER[kept], upper=UPPER[kept])
    ).fit(X[:, kept], y - 0.5 * X[:, 2])
    np.testing.assert_allclose(model.coef_[kept], part.coef_, atol=1e-8)
    free = np.where(np.arange(P) == 0, 0.0, lam)[kept]
    assert (
        violation(
            part, X, X[:, kept].T @ (model.predict(X) - y), 0.0, 0.0, LOWER[kept], UPPER[kept]
        )
        <= free.max() + 1e-6
    )


@pytest.mark.parametrize("prior", [Laplace(lower=0), Normal(lower=0, upper=0.5)], ids=repr)
def test_cross_validated_scores_are_those_of_fits_to_the_training_rows(prior, rng):
    X, eta = data(rng)
    y = (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))) * 1
    variances = [0.01, 0.1, 1.0]
    halves = np.arange(len(y)) % 2
    folds = [(np.flatnonzero(halves != k), np.flatnonzero(halves == k)) for k in range(2)]
    model = LogisticRegression(prior=prior, cv=CrossValidation(folds, search=variances)).fit(X, y)
    assert model.converged_
    assert (model.coef_ >= 0).all()
    for _, row in model.cv_results_.iterrows():
        scores = []
        for train, test in folds:
            fit = LogisticRegression(prior=prior.with_variance(row["variance"]))
            fit.fit(X[train], y[train])
            p = fit.predict_proba(X[test])[:, 1]
            scores.append(np.log(np.where(y[test] == 1, p, 1 - p)).sum())
        assert row["mean"] == pytest.approx(np.mean(scores), rel=2e-4)


def test_an_automatic_cross_validation_and_a_criterion_run(rng):
    X, eta = data(rng)
    y = (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))) * 1
    for chooser in (CrossValidation(3, random_state=1), InformationCriterion("bic")):
        model = LogisticRegression(prior=Laplace(lower=0), cv=chooser).fit(X, y)
        assert model.converged_
        assert (model.coef_ >= 0).all()
        assert model.coef_.any()
    df = model.cv_results_["df"]
    assert (df == 1 + model.cv_results_["nonzero"]).all()  # the intercept too


def test_paths_and_relaxed_paths_keep_the_limits(rng):
    X, eta = data(rng)
    y = eta + rng.normal(size=len(eta))
    model = LinearRegression(prior=Laplace(lower=LOWER, upper=UPPER))
    path = coefficient_path(model, X, y, n_variances=6)
    relaxed = coefficient_path(model, X, y, path.index, relax=True)
    for table in (path, relaxed):
        assert ((table >= LOWER) & (table <= UPPER)).all().all()
    assert not path.iloc[0].any() or np.count_nonzero(path.iloc[0]) <= 2
    alone = model.set_params(prior=Laplace(path.index[3], lower=LOWER, upper=UPPER)).fit(X, y)
    np.testing.assert_allclose(path.iloc[3], alone.coef_, atol=1e-8)
    chosen = np.flatnonzero(path.iloc[3])
    flat = Laplace(np.inf, lower=LOWER[chosen], upper=UPPER[chosen])
    refit = LinearRegression(prior=flat).fit(X[:, chosen], y)
    np.testing.assert_allclose(relaxed.iloc[3].to_numpy()[chosen], refit.coef_, atol=1e-7)


def test_bootstrap_draws_many_outcomes_copies_and_pickles(rng):
    X, eta = data(rng)
    y = (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))) * 1
    model = LogisticRegression(prior=Laplace(0.5, lower=LOWER, upper=UPPER)).fit(X, y)
    draws = model.inference.bootstrap(12, random_state=1)
    assert ((draws.coef[:, 1:] >= LOWER) & (draws.coef[:, 1:] <= UPPER)).all()
    table = fit_many(model, X, {"y": y, "not": 1 - y})
    np.testing.assert_allclose(table["coef"][1 : P + 1], model.coef_, atol=1e-8)
    np.testing.assert_array_equal(clone(model).fit(X, y).coef_, model.coef_)
    again = pickle.loads(pickle.dumps(model))
    assert again.summary()["se"].isna().all()


def test_a_profile_beside_limits_is_the_maximum_over_the_others(rng):
    X, eta = data(rng)
    y = (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))) * 1
    prior = Laplace(0.5, exclude=[2], lower=LOWER, upper=UPPER)
    model = LogisticRegression(prior=prior).fit(X, y)
    found = model.inference.profile("x2", [0.4, 0.9])
    for value, log in zip([0.4, 0.9], found["log_likelihood"], strict=True):
        held = LogisticRegression(prior=prior).fit(X, y, fixed={2: value})
        penalty = 2.0 * np.abs(np.delete(held.coef_, 2)).sum()
        assert log == pytest.approx(held.log_likelihood_ - penalty, abs=1e-5)
    limits = model.confint("x2", method="profile")
    assert limits["lower"].iloc[0] < model.coef_[2] < limits["upper"].iloc[0]
    with pytest.raises(DataError, match="With limits of coefficients, there is a profile"):
        model.inference.profile("x0")
    with pytest.raises(DataError, match="without a prior and limits"):
        model.confint(["x6"], method="profile")


def test_errors_are_refused_in_a_clear_sentence(rng):
    X, eta = data(rng)
    y = (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))) * 1
    model = LogisticRegression(prior=Normal(1.0, lower=0)).fit(X, y)
    for asked in (
        model.vcov, lambda: model.vcov("robust"), model.confint,
        lambda: model.effects.predictions(X), lambda: model.effects.average(X),
    ):  # fmt: skip
        with pytest.raises(DataError, match="limits"):
            asked()
    flat = LogisticRegression(prior=Normal(np.inf, lower={"x0": 0.0})).fit(X, y)
    for asked in (
        lambda: flat.inference.linear_hypothesis("x0 = x1", test="likelihood ratio"),
        lambda: flat.inference.linear_hypothesis("x2 = 0", test="score"),
        lambda: flat.inference.linear_combination("x0 - x2", method="profile"),
        lambda: LogisticRegression(prior=Laplace(lower=0)).fit(X, y).inference.debiased_lasso("x0"),
        lambda: model.inference.posterior("x0"),
        lambda: (
            MultinomialLogisticRegression(prior=Normal(lower=0))
            .fit(X, y)
            .inference.posterior("0:x0")
        ),
    ):
        with pytest.raises(DataError, match="limits"):
            asked()
    assert "x0" not in flat.confint(method="profile").index
    table = model.summary()
    assert table["se"].isna().all()
    assert "With limits" in table.attrs["note"]


def test_a_limit_keeps_a_separated_coefficient_finite(rng):
    x = np.r_[np.zeros(30), np.ones(30)]
    y = np.r_[rng.integers(0, 2, 30), np.ones(30, int)]
    X = np.c_[x, rng.normal(size=60)]
    with pytest.raises(SeparationError, match="x0"):
        LogisticRegression(prior=Laplace(np.inf, lower=0)).fit(X, y)
    model = LogisticRegression(prior=Laplace(np.inf, upper={"x0": 2.0})).fit(X, y)
    assert model.coef_[0] == 2.0
    assert model.converged_
    assert LogisticRegression(prior=Laplace(np.inf, upper=[0, 9])).fit(X, y).coef_[0] == 0.0


def test_limits_of_a_column_hold_for_all_its_steps(rng):
    X, eta = data(rng)
    y = Surv(rng.exponential(np.exp(-eta)), np.ones(len(eta)))
    prior = Normal(np.inf, upper={"x2": 0.1})
    model = CoxRegression(prior=prior, time_varying={2: [0.3, 1.0]}).fit(X, y)
    names = np.array(model.coef_names_)
    assert (model.coef_[[n.startswith("x2@") for n in names]] == 0.1).all()
    assert model.converged_


def test_conditions_of_a_penalty_with_limits():
    penalty = LimitedPenalty(
        np.array([1.0, 0.0]), l2=np.array([0.0, 2.0]),
        lower=np.array([0.0, -1.0]), upper=np.array([0.5, 1.0]),
    )  # fmt: skip
    at = {  # gradient and coefficient of each column: their violations
        (5.0, 0.0): 0.0, (-1.0, 0.0): 0.0, (-3.0, 0.0): 2.0, (-3.0, 0.5): 0.0, (1.0, 0.5): 2.0,
        (-0.5, 0.25): 0.5,
    }  # fmt: skip
    for (g, b), v in at.items():
        found = penalty.violations(np.array([[g], [0.0]]), np.array([[b], [0.0]]))
        assert found[:, 0].tolist() == [v, 0.0]
    for (g, b), v in {
        (-2.0, 1.0): 0.0,
        (-3.0, 1.0): 0.0,
        (-1.0, 1.0): 1.0,
        (3.0, -1.0): 0.0,
    }.items():
        found = penalty.violations(np.array([[0.0], [g]]), np.array([[0.0], [b]]))
        assert found[1, 0] == v


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"lower": 0.1}, "lower must be zero or negative.* 0.1 for 'x0'.*offset"),
        ({"upper": [-1.0] + [1.0] * 7}, "upper must be zero or positive"),
        ({"lower": np.nan}, "lower must be zero or negative"),
        ({"lower": {"z": 0.0}}, "lower names 'z', which is not a column"),
        ({"upper": [1.0, 2.0]}, "upper must be one for all or one for each of the 8"),
        ({"upper": "high"}, "upper must be a number"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits, why, rng):
    X, eta = data(rng)
    with pytest.raises(DataError, match=why):
        LinearRegression(prior=Normal(1.0, **limits)).fit(X, eta)


def test_blocks_of_rows_have_limits(rng):
    X, eta = data(rng)
    y = (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))) * 1
    model = LogisticRegression(prior=Laplace(0.5, lower=0, upper=0.4))
    blocks = ShardedDesign.from_blocks([X[:100], X[100:]])
    np.testing.assert_allclose(model.fit(blocks, y).coef_, clone(model).fit(X, y).coef_, atol=1e-7)


def test_solvers_that_know_no_limits_refuse_them(rng):
    X, eta = data(rng)
    y = (eta > 0) * 1
    with pytest.raises(DataError):
        LogisticRegression(prior=Laplace(lower=0), solver="ccd").fit(X, y)


def test_priors_without_limits_look_as_before():
    assert repr(Laplace(2.0)) == "Laplace(variance=2.0, exclude=())"
    assert repr(Normal(2.0, lower=0)) == "Normal(variance=2.0, exclude=(), lower=0)"
    assert Laplace(1.0).plain
    assert not Laplace(1.0, upper=1).plain


def test_ordinal_models_have_limits_too(rng):
    X, eta = data(rng)
    y = np.round(eta + rng.logistic(size=len(eta)), 1)
    model = CumulativeProbabilityModel(prior=Laplace(np.inf, lower=0)).fit(X, y)
    kept = np.flatnonzero(model.coef_)
    part = CumulativeProbabilityModel().fit(X[:, kept], y)
    np.testing.assert_allclose(model.coef_[kept], part.coef_, atol=1e-6)
    assert 0 < len(kept) < P
