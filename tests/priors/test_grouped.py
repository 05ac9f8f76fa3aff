"""Group and fused Laplace priors: dense proximal mathematics, and the lasso of the steps."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

import reference
from every_family import EVERY, case
from steropes import (
    CoxRegression,
    CrossValidation,
    CumulativeProbabilityModel,
    DataError,
    FusedLaplace,
    GroupLaplace,
    InformationCriterion,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
)
from steropes.fit import solve_under_prior
from steropes.infer.information_matrix import Information
from steropes.infer.score_contributions import UnitScores
from steropes.priors import GroupPenalty


def data(rng, n=250, p=9):
    X = rng.normal(size=(n, p))
    X[:, 1] += X[:, 0]
    X[:, 4] = (rng.random(n) < 0.3) * 2.0
    eta = X[:, :3] @ [0.6, -0.4, 0.3]
    return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)


GROUPS = np.array([0, 0, 0, 1, 1, 1, 2, 2, -1])


def proximal(gradient, L, beta, groups, lam, steps=3000):
    """FISTA with restarts (Beck and Teboulle 2009) for Σ_g λ_g ‖β_g‖."""
    z, t = beta.copy(), 1.0
    for _ in range(steps):
        new = z - gradient(z) / L
        for at, w in zip(groups, lam, strict=True):
            size = np.linalg.norm(new[at])
            new[at] *= max(0.0, 1 - w / L / size) if size > 0 else 0.0
        if (z - new) @ (new - beta) > 0:
            t = 1.0
        s = (1 + np.sqrt(1 + 4 * t * t)) / 2
        z, beta, t = new + (t - 1) / s * (new - beta), new, s
    return beta


# -- group Laplace ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prior",
    [GroupLaplace([0, 0, 0, 1, 1, 1, 2, 2, 3], 0.02), FusedLaplace([range(3), range(3, 9)], 0.02)],
    ids=["groups", "chains"],
)
def test_columns_that_were_let_in_one_by_one_bring_their_group_along(prior, rng):
    X, y = data(rng)
    model = LogisticRegression(prior=prior, tol=1e-9).fit(X, y)
    problem = model._problem
    batch = problem.batch()
    batch.term.join(np.array([1, 4, 5]))  # of the first two groups, as folds expect columns
    fit = solve_under_prior(problem, batch, prior, 1e-9).fits[0]
    assert fit.optimality <= 1e-9
    assert fit.n_iter < 20
    np.testing.assert_allclose(fit.beta[1:], model.coef_, atol=1e-7)  # X is centred here


@pytest.mark.parametrize(
    ("family", "as_x"),
    [("linear", pd.DataFrame), ("logistic", sparse.csc_array), ("poisson", np.asarray)],
)
def test_the_group_lasso_is_where_proximal_gradients_end(family, as_x, rng):
    X, y = data(rng)
    kind = {
        "linear": LinearRegression, "logistic": LogisticRegression, "poisson": PoissonRegression,
    }[family]  # fmt: skip
    w, offset = rng.integers(0, 3, len(y)).astype(float), X[:, 8] * 0.2
    labels = [None if g < 0 else g for g in GROUPS]
    prior = GroupLaplace(labels, 0.02, exclude=[7])
    model = kind(prior=prior, tol=1e-9).fit(as_x(X), y, sample_weight=w, offset=offset)
    assert model.converged_
    Z = np.column_stack([np.ones(len(y)), X])
    groups = [np.array(g) for g in ([1, 2, 3], [4, 5, 6], [7], [9])]
    lam = [np.sqrt((len(g) + 1) / 0.02) for g in groups]

    def gradient(b):
        return Z.T @ getattr(reference, family)(Z @ b + offset, y, w)[1]

    L = np.linalg.norm(Z * np.sqrt(w)[:, None], 2) ** 2 * (4.0 if family == "poisson" else 1.0)
    found = proximal(gradient, L, np.zeros(10), groups, lam)
    np.testing.assert_allclose(np.append(model.intercept_, model.coef_), found, atol=2e-6)
    zero = [g for g in groups if not found[g].any()]
    assert all((model.coef_[g - 1] == 0).all() for g in zero)


@pytest.mark.parametrize("name", EVERY[:-1])  # thresholds would have to be at their optimum
def test_the_conditions_hold_in_every_family(name, rng):
    c = case(name, rng)
    groups = {"x0": "a", "x1": "a", "x2": "a", "x3": "b"}
    model = c.fit(prior=GroupLaplace(groups, 0.05))
    assert model.converged_
    problem = model._problem
    batch = problem.batch()  # slopes of the loss alone, by another way than the certificate's
    batch.start_at((model._beta * problem.design.scale)[:, None])
    g = batch.gradients()[:, 0] * problem.design.scale
    penalty = problem.group_penalty(model.prior_)
    for at in (*penalty.groups, *np.flatnonzero(penalty.l1)[:, None]):
        b, lam = model._beta[at], penalty.l1[at[0]]
        if len(at) == 1 and any(at[0] in x for x in penalty.groups):
            continue
        size = np.linalg.norm(b)
        if size > 0:
            np.testing.assert_allclose(g[at], -lam * b / size, atol=1e-6 * lam)
        else:
            assert np.linalg.norm(g[at]) <= lam * (1 + 1e-7)


@pytest.mark.parametrize("name", ["logistic", "cox", "conditional exact", "cumulative"])
def test_groups_of_one_are_the_lasso(name, rng):
    c = case(name, rng)
    a = c.fit(prior=GroupLaplace(list("abcde"), 0.05, exclude=[0]))
    b = c.fit(prior=Laplace(0.05, exclude=[0]))
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-7)


def test_each_coefficient_has_the_variance_whatever_the_size_of_its_group(rng):
    for m in (1, 2, 5):
        lam = GroupLaplace(["g"] * m, 0.7).group_penalty([f"x{j}" for j in range(m)]).l1[0]
        radius = stats.gamma(m, scale=1 / lam).rvs(200_000, random_state=rng)
        u = rng.normal(size=(200_000, m))
        beta = radius[:, None] * u / np.linalg.norm(u, axis=1)[:, None]
        np.testing.assert_allclose(beta[:, 0].var(), 0.7, rtol=0.03)


def test_units_rows_and_a_second_use(rng):
    X, y = data(rng)
    w = rng.integers(0, 3, len(y))
    model = LogisticRegression(prior=GroupLaplace(GROUPS, 0.05))
    first = model.fit(X, y, sample_weight=w).coef_
    rows = rng.permutation(np.repeat(np.arange(len(y)), w))
    np.testing.assert_allclose(model.fit(X[rows], y[rows]).coef_, first, atol=1e-7)
    for unit in (1e-7, 1e7):
        tiny = LogisticRegression(prior=GroupLaplace(GROUPS, 0.05 / unit**2))
        found = tiny.fit(X * unit, y, sample_weight=w)
        assert found.converged_
        np.testing.assert_allclose(found.coef_ * unit, first, atol=1e-7)


@pytest.mark.parametrize("prior", [GroupLaplace(GROUPS), FusedLaplace([[0, 1, 2], [5, 6]])])
def test_folds_draws_and_criteria_are_fits_of_their_rows(prior, rng):
    X, y = data(rng)
    grid = [0.01, 0.1]
    fold = np.arange(len(y)) % 3
    splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    model = LogisticRegression(prior=prior, cv=CrossValidation(splits, search=grid)).fit(X, y)
    for i, v in enumerate(grid):
        for f, (train, test) in enumerate(splits):
            m = LogisticRegression(prior=prior.with_variance(v)).fit(X[train], y[train])
            eta = m.linear_predictor(X[test])
            score = (y[test] * eta - np.logaddexp(0, eta)).sum()
            np.testing.assert_allclose(model.cv_results_[f"fold{f}"][i], score, atol=1e-4)
    walked = LogisticRegression(prior=prior, cv=CrossValidation(3, random_state=1)).fit(X, y)
    assert walked.cv_results_["nonzero"].iloc[0] <= 5
    draws = walked.inference.bootstrap(2, random_state=1)
    assert draws.converged.all()
    assert draws.coef.shape == (2, 10)
    chosen = LogisticRegression(prior=prior, cv=InformationCriterion(search=grid)).fit(X, y)
    np.testing.assert_allclose(chosen.cv_results_["criterion"].min(), chosen.bic_)


def test_a_column_beside_groups_has_its_profile(rng):
    X, y = data(rng)
    prior = GroupLaplace(np.append(GROUPS[:-1], 3), 0.05, exclude=[8])
    model = LogisticRegression(prior=prior).fit(X, y)
    limits = model.confint("x8", method="profile").to_numpy()[0]

    def height(at):
        fewer = GroupLaplace(GROUPS[:-1], 0.05)
        m = LogisticRegression(prior=fewer).fit(X[:, :8], y, offset=at * X[:, 8])
        return m.log_likelihood_ - fewer.group_penalty(list("abcdefgh")).value(m.coef_[:, None])[0]

    drop = stats.chi2.ppf(0.95, 1) / 2
    for at in limits:
        np.testing.assert_allclose(height(model.coef_[8]) - height(at), drop, rtol=1e-4)
    with pytest.raises(DataError, match="has a part in the prior"):
        model.inference.profile("x0", [0.0])


def test_degrees_of_freedom_of_groups_are_a_trace(rng):
    X, y = data(rng)
    model = LinearRegression(prior=GroupLaplace(GROUPS, 0.5)).fit(X, y)
    Z = X - X.mean(axis=0)
    at = np.flatnonzero(model.coef_)
    P = np.zeros((9, 9))
    for g in range(-1, 3):
        x = np.flatnonzero(g == GROUPS)
        b, size = model.coef_[x], np.linalg.norm(model.coef_[x])
        if size > 0 and len(x) > 1:
            lam = np.sqrt((len(x) + 1) / 0.5)
            P[np.ix_(x, x)] = lam / size * (np.eye(len(x)) - np.outer(b, b) / size**2)
    H = (Z.T @ Z)[np.ix_(at, at)]
    df = 2 + np.trace(np.linalg.solve(H + P[np.ix_(at, at)], H))
    np.testing.assert_allclose(model.aic_, -2 * model.log_likelihood_ + 2 * df, rtol=1e-9)


@pytest.mark.parametrize("prior", [GroupLaplace(GROUPS, 0.05), FusedLaplace([[2, 1, 0]], 0.05)])
def test_the_influence_of_a_row_is_what_a_little_weight_changes(prior, rng):
    X, y = data(rng)
    model = LogisticRegression(prior=prior, tol=1e-12).fit(X, y)
    directions = Information(model._problem, model._beta, *model._problem.penalties(prior))
    moved = directions.influence()
    scores = UnitScores(model._problem, model._beta, None).along(moved)
    for i in (0, 7):
        w = np.ones(len(y))
        w[i] += 1e-3
        other = LogisticRegression(prior=prior, tol=1e-12).fit(X, y, sample_weight=w)
        change = np.append(other.intercept_ - model.intercept_, other.coef_ - model.coef_)
        np.testing.assert_allclose(scores[i] * 1e-3, change, rtol=0.02, atol=1e-8)


# -- fused Laplace ---------------------------------------------------------------------------------

SINGLE = [name for name in EVERY if name not in ("cox by step", "pooled change")]


@pytest.mark.sampled
@pytest.mark.parametrize("name", SINGLE)
def test_a_chain_is_the_lasso_of_its_steps(name, rng):
    c = case(name, rng)
    prior = FusedLaplace([["x3", "x0", "x2"]], 0.05, level_variance=0.5, exclude=["x4"])
    names = [f"x{j}" for j in range(5)]
    fused = c.fit(pd.DataFrame(c.X, columns=names), prior=prior)
    C = np.eye(5)
    C[0, 3] = C[2, 3] = C[2, 0] = 1.0
    steps = Laplace([0.05, 0.05, 0.05, 0.5, 1.0], exclude=[4])
    lasso = c.fit(c.X @ C, prior=steps)
    assert fused.converged_
    np.testing.assert_allclose(fused.coef_, C @ lasso.coef_, atol=1e-6)
    np.testing.assert_allclose(fused.aic_, lasso.aic_, rtol=1e-7)


def test_neighbours_without_a_step_are_exactly_equal(rng):
    window = rng.integers(-1, 30, 3000)
    X = (window[:, None] == np.arange(30)).astype(float)
    risk = 1 / (1 + np.exp(1.5 - 1.0 * ((window >= 10) & (window < 20))))
    y = (rng.random(3000) < risk).astype(int)
    for as_x in (np.asarray, sparse.csr_array):
        model = LogisticRegression(prior=FusedLaplace([range(30)], 0.02)).fit(as_x(X), y)
        assert model.converged_
        assert len(np.unique(model.coef_)) < 12
    free = FusedLaplace([range(30)], 0.02, level_variance=np.inf)
    level = LogisticRegression(prior=free).fit(X, y)
    assert level.converged_
    assert not np.allclose(level.coef_, model.coef_)


def test_a_free_level_with_endless_steps_is_maximum_likelihood(rng):
    X, y = data(rng)
    prior = FusedLaplace([[0, 1, 2]], 1e10, exclude=range(3, 9))
    model = LogisticRegression(prior=prior, tol=1e-6).fit(X, y)
    plain = LogisticRegression().fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-4)


def test_given_coefficients_leave_groups_and_are_refused_in_chains(rng):
    X, y = data(rng)
    model = LogisticRegression(prior=GroupLaplace(GROUPS, 0.05)).fit(X, y, fixed={0: 0.5})
    other = LogisticRegression(prior=GroupLaplace(GROUPS[1:], 0.05))
    other.fit(X[:, 1:], y, offset=0.5 * X[:, 0])
    np.testing.assert_allclose(model.coef_[1:], other.coef_, atol=1e-7)
    with pytest.raises(DataError, match="its neighbours' prior"):
        LogisticRegression(prior=FusedLaplace([[0, 1]])).fit(X, y, fixed={1: 0.0})
    kept = LogisticRegression(prior=FusedLaplace([[1, 2]])).fit(X, y, fixed={0: 0.0})
    assert kept.converged_


def test_a_loss_that_is_not_convex(rng):
    X = rng.normal(size=(120, 4))
    y = np.round(X[:, 0] + X[:, 1] + rng.standard_cauchy(120))
    model = CumulativeProbabilityModel(link="cauchit", prior=GroupLaplace([0, 0, 1, 1], 0.05))
    assert model.fit(X, y).converged_


@pytest.mark.parametrize(
    ("prior", "why"),
    [
        (GroupLaplace([0, 1]), "a label for each of the 9 columns"),
        (GroupLaplace({"age": 1}), "'age'"),
        (GroupLaplace(GROUPS, -1.0), "positive number"),
        (FusedLaplace([[0, 1], [1, 2]]), "'x1' is in the chains twice"),
        (FusedLaplace([[0, 1]], exclude=[1]), "'x1' is excluded"),
        (FusedLaplace([["x0", "age"]]), "'age'"),
        (FusedLaplace([[0, 9]]), "position 9"),
        (FusedLaplace([0, 1]), "lists of columns"),
        (FusedLaplace([[0, 1.5]]), "names or positions"),
        (FusedLaplace([[0, 1]], level_variance=0.0), "level_variance"),
    ],
)
def test_settings_that_make_no_sense_are_refused(prior, why, rng):
    X, y = data(rng)
    with pytest.raises(DataError, match=why):
        LogisticRegression(prior=prior).fit(X, y)


def test_where_they_are_not_there_is_said(rng):
    c = case("cox by step", rng)
    with pytest.raises(DataError, match="vary with time"):
        c.fit(prior=FusedLaplace([[0, 1]]))
    X, y = data(rng)
    with pytest.raises(DataError, match="needs solver='newton'"):
        LogisticRegression(prior=GroupLaplace(GROUPS), solver="ccd").fit(X, y)
    assert isinstance(Normal().group_penalty(["a"]), type(None))
    assert CoxRegression(prior=GroupLaplace([0, 0])).get_params()["prior"].variance == 1.0


def test_the_map_between_steps_and_coefficients(rng):
    penalty = GroupPenalty(np.ones(6), (np.array([4, 5]),), (np.array([2, 0, 3]),))
    beta, g = rng.normal(size=(6, 2)), rng.normal(size=(6, 2))
    theta = penalty.steps(beta)
    np.testing.assert_allclose(penalty.coefficients(theta), beta)
    np.testing.assert_allclose((g * beta).sum(), (penalty.slopes(g) * theta).sum())
    whole = [abs(theta[:4]).sum(axis=0), np.linalg.norm(theta[4:], axis=0)]
    np.testing.assert_allclose(penalty.value(beta), sum(whole))
    np.testing.assert_array_equal(penalty.closed(np.array([3])), [0, 2, 3])


@pytest.mark.parametrize(
    ("prior", "joined"),
    [(Normal(1.0), False), (GroupLaplace([0, 0, 0, 1, 1, 1, 2, 2, 3], 0.02), True)],
)
def test_a_batch_goes_under_another_prior_by_itself(prior, joined, rng):
    X, y = data(rng)
    problem = LogisticRegression(prior=prior).fit(X, y)._problem
    batch, other = problem.batch(), prior.with_variance(0.5)
    assert not batch.term.set_prior(other)  # the losses are the data's alone
    solve_under_prior(problem, batch, prior, 1e-9)
    before = batch.beta
    batch.set_prior(other, problem.group_penalty(other))
    np.testing.assert_array_equal(batch.beta, before)
    there = solve_under_prior(problem, batch, other, 1e-9).fits[0]
    model = LogisticRegression(prior=other, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(there.beta[1:], model.coef_, atol=1e-7)
    assert hasattr(batch, "group_penalty") == joined
