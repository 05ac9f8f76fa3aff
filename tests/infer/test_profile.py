"""Profile likelihoods: against R, against refits, and on sides that have no end."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, sparse, stats
from scipy.interpolate import CubicHermiteSpline

from every_family import EVERY, case
from reference_numbers import data
from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    DataError,
    ElasticNet,
    Laplace,
    LinearRegression,
    LogisticRegression,
    MonotoneLikelihoodWarning,
    Normal,
    PoissonRegression,
    SelfControlledCaseSeries,
    Surv,
    demo_database,
)
from steropes.infer.inference_constants import PROFILE
from steropes.infer.profile_fits import ProfileFits, ProfilePoint
from steropes.infer.profile_search import Maximum, find_limit, find_maximum, run_searches
from steropes.models.inference.coefficient_profiles import CoefficientProfiles

FAMILIES = [name for name in EVERY if name != "cumulative"]
HALF = 0.5 * stats.chi2.ppf(0.95, 1)


def test_agrees_with_r_on_age_in_lung():
    lung = data("lung")
    X = lung[["age", "sex"]]
    cox = CoxRegression().fit(X, Surv(lung.time, lung.status))
    # R: logLik(coxph(Surv(time, status) ~ sex + offset(v * age), lung)) for v
    at = {-0.01: -678.101830139, 0.0: -675.282267527, 0.03: -673.582381186, 0.05: -677.657180062}
    profile = cox.inference.profile("age", list(at))
    np.testing.assert_allclose(profile.log_likelihood, list(at.values()), atol=1e-8)
    # and uniroot(...) of its fall by qchisq(0.95, 1) / 2, tol = 1e-13
    limits = cox.confint("age", method="profile").to_numpy()
    np.testing.assert_allclose(limits, [[0.00138264075788, 0.03927965845002]], atol=1e-9)
    # R: the same of the deviance of glm(status ~ sex + offset(v * age), family = binomial)
    logistic = LogisticRegression().fit(X, lung.status)
    limits = logistic.confint(["age"], method="profile").to_numpy()
    np.testing.assert_allclose(limits, [[0.00133372789015, 0.0689648461637]], atol=1e-9)


def test_agrees_with_the_published_profile_of_celecoxib_against_diclofenac():
    """CohortMethod 6.0 of OHDSI on the demonstration database: the unadjusted analysis."""
    published = np.array(  # log rate ratio, log-likelihood less its maximum, gradient
        [
            [-2.3025850929940455, -108.38170214440447, 84.69068253443756],
            [2.302585092994045, -53.006395918216356, -38.983569932937],
        ]
    )
    people = crude_comparison()
    y = Surv(people.time, people.event)
    model = CoxRegression(ties="breslow").fit(people[["treated"]], y)
    profile = model.inference.profile("treated", published[:, 0])
    got = profile.log_likelihood - model.log_likelihood_
    np.testing.assert_allclose(got, published[:, 1], atol=1e-8)
    np.testing.assert_allclose(profile.gradient, published[:, 2], atol=1e-7)
    # rr, ci_95_lb, ci_95_ub; its search for the limits stops at a tolerance
    np.testing.assert_allclose(np.exp(model.coef_), 1.1340672422578013, rtol=1e-8)
    limits = np.exp(model.confint(method="profile").to_numpy()[0])
    np.testing.assert_allclose(limits, [0.8108212938585398, 1.6125025], rtol=2e-4)


def crude_comparison():
    """First eras of two drugs after 183 days of observation, to 30 days past their end."""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(demo_database()), read_only=True) as con:

        def read(sql):
            table = con.execute(sql).df()
            days = [c for c in table if c != "person" and c != "drug"]
            return table.assign(**{c: pd.to_datetime(table[c]) for c in days})

        eras = read(
            "SELECT person_id AS person, drug_concept_id AS drug, drug_era_start_date AS first,"
            " drug_era_end_date AS last FROM drug_era WHERE drug_concept_id IN (1118084, 1124300)"
        )
        periods = read(
            "SELECT person_id AS person, observation_period_start_date AS a,"
            " observation_period_end_date AS b FROM observation_period"
        )
        bleeds = read(
            "SELECT person_id AS person, condition_start_date AS day FROM condition_occurrence"
            " WHERE condition_concept_id IN (SELECT descendant_concept_id FROM concept_ancestor"
            " WHERE ancestor_concept_id = 192671)"
        )
    begin = eras.groupby("drug")["first"].min().max()
    end = eras.groupby("drug")["first"].max().min()
    first = eras.sort_values("first").groupby("person").head(1).merge(periods, on="person")
    first = first[(first["first"] >= first.a) & (first["first"] <= first.b)]
    first = first[(first["first"] - first.a).dt.days >= 183]
    first = first[first["first"].between(begin, end)]
    first["end"] = np.minimum(first["last"] + pd.Timedelta(30, "D"), first.b)
    at_risk = bleeds.merge(first, on="person")
    at_risk = at_risk[(at_risk.day >= at_risk["first"]) & (at_risk.day <= at_risk.end)]
    day = first.person.map(at_risk.groupby("person").day.min())
    return pd.DataFrame(
        {
            "time": (day.fillna(first.end) - first["first"]).dt.days + 1,
            "event": day.notna().astype(int),
            "treated": (first.drug == 1118084).astype(float),
        }
    )


@pytest.mark.sampled
@pytest.mark.parametrize("number", range(len(FAMILIES)))
def test_points_are_refits_with_the_coefficient_as_an_offset(number, rng):
    name = FAMILIES[number]
    prior = [None, Laplace(0.05, exclude=[2]), Normal(0.2, exclude=[2])][number % 3]
    c = case(name, rng, n=150)
    store = [np.asarray, sparse.csc_matrix, sparse.csr_array][number % 3]
    model = c.fit(store(c.X), prior=prior)
    j = model._coefficient_names().index("x2")
    low, high = model.confint(j, method="profile").to_numpy()[0]
    table = model.inference.profile("x2", [low, float(model._coefficients()[j]), high])
    best = table.log_likelihood[1]
    np.testing.assert_allclose(table.log_likelihood[[0, 2]], best - HALF, atol=1e-6)
    np.testing.assert_allclose(table.gradient[1], 0.0, atol=1e-4)
    if name in ("cox by step", "pooled change"):
        return  # an offset cannot stand for them
    extras = {k: v for k, v in c.extras.items() if k != "offset"}
    offset = c.extras.get("offset", 0.0) + high * c.X[:, 2]
    refit = c.make(prior=_without(prior)).fit(
        np.delete(c.X, 2, axis=1), c.y, offset=offset, **extras
    )
    if prior is None:
        np.testing.assert_allclose(table.log_likelihood[2], refit.log_likelihood_, atol=1e-6)
    elif name != "linear":
        beta = np.abs(refit.coef_)
        less = {1: np.sqrt(2 / 0.05) * beta.sum(), 2: 0.5 * (beta**2).sum() / 0.2}[number % 3]
        np.testing.assert_allclose(table.log_likelihood[2], refit.log_likelihood_ - less, atol=1e-6)


def _without(prior):
    return None if prior is None else type(prior)(prior.variance)


@pytest.mark.parametrize("prior", [None, Laplace(0.01, exclude=[0]), ElasticNet(0.05, 0.1)])
def test_adaptive_points_interpolate(prior, rng):
    c = case("cox", rng, n=150, p=12)
    model = c.fit(prior=prior)
    p = model.inference.profile("x0")
    new = np.linspace(p.point.min(), p.point.max(), 203)
    exact = model.inference.profile("x0", new).log_likelihood
    assert abs(np.interp(new, p.point, p.log_likelihood) - exact).max() < 1e-3
    cubic = CubicHermiteSpline(p.point, p.log_likelihood, p.gradient)(new)
    assert abs(cubic - exact).max() < 1e-5
    inside = model.confint("x0", 0.999, method="profile").to_numpy()[0]
    assert p.point.min() < inside[0] < inside[1] < p.point.max()
    assert 50 < len(p) < 200


def test_several_parameters_at_once_are_each_by_itself(rng):
    c = case("poisson", rng)
    model = c.fit()
    both = model.inference.profile(["x3", "intercept"], [0.1, 0.3])
    assert list(both.columns) == ["param", "point", "log_likelihood", "gradient"]
    for name in ("x3", "intercept"):
        alone = model.inference.profile(name, [0.1, 0.3])
        mine = both[both.param == name].reset_index(drop=True)
        pd.testing.assert_frame_equal(mine.drop(columns="param"), alone, atol=1e-6, rtol=0)
    limits = model.confint(method="profile")
    for j, name in enumerate(limits.index):
        one = model.confint(name, method="profile").to_numpy()
        np.testing.assert_allclose(one[0], limits.iloc[j], atol=1e-7)


def test_an_interval_and_points_share_their_fits(rng, monkeypatch):
    X = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    y = (rng.random(80) < 1 / (1 + np.exp(-X["a"]))).astype(int)
    model = LogisticRegression(prior=Laplace(0.5, exclude=["a", "b"])).fit(X, y)
    profiles = CoefficientProfiles(model, ["a", "b"])
    limits = profiles.intervals(0.95)
    np.testing.assert_array_equal(limits, model.confint(["a", "b"], method="profile"))
    fitted, fit = [], ProfileFits.fit
    monkeypatch.setattr(ProfileFits, "fit", lambda self, j, v: fitted.extend(v) or fit(self, j, v))
    value, slope = profiles.function("b")(np.array([0.3, *limits[1], 0.3]))
    assert fitted == [0.3]  # the limits are known, and no point is fitted twice
    table = model.inference.profile("b", [0.3, *limits[1], 0.3])
    np.testing.assert_allclose(value, table["log_likelihood"], rtol=1e-9)
    np.testing.assert_allclose(slope, table["gradient"], rtol=1e-6)


def test_the_intercept_is_that_at_zero_whatever_the_columns_centres(rng):
    x = rng.normal(50.0, 2.0, size=120)
    y = (rng.random(120) < 1 / (1 + np.exp(-(x - 50)))).astype(int)
    model = LogisticRegression().fit(x[:, None], y)
    at = float(model.intercept_) + 4.0

    def loss(b):
        eta = at + b * x
        return np.logaddexp(0, eta).sum() - y @ eta

    best = optimize.minimize_scalar(
        loss, bounds=(-2, 2), method="bounded", options={"xatol": 1e-12}
    )
    got = model.inference.profile("intercept", at)
    np.testing.assert_allclose(got.log_likelihood, -best.fun, atol=1e-7)
    lower, upper = model.confint("intercept", method="profile").to_numpy()[0]
    assert lower < model.intercept_ < upper


def answered(search, slope):
    """What a search ends with over a profile that is flat but for a slope."""
    asked = next(search)
    while True:
        try:
            asked = search.send([ProfilePoint(asked[0], 0.0, slope)])
        except StopIteration as stop:
            return stop.value


def test_the_reach_is_reached_whatever_the_rounding(rng):
    """A profile that has no end is found to have none, wherever its maximum is said to be."""
    for at in rng.normal(size=40) * 100:
        top = Maximum(ProfilePoint(at, 0.0, 0.0), 0)
        assert answered(find_limit(top, -1, 1.92, 0.7, 160 / 3), 1e-9).value == -np.inf


@pytest.mark.sampled
@pytest.mark.parametrize("family", ["logistic", "poisson", "cox", "case series"])
def test_a_side_on_which_the_likelihood_rises_for_ever_is_infinite(family, rng):
    n = 120
    x = (np.arange(n) % 4 == 0).astype(float)
    X = np.column_stack([x, rng.normal(size=n)])
    event = (rng.random(n) < 0.4) & (x == 0)
    prior = Normal(1.0)
    if family == "logistic":
        model = LogisticRegression(prior=prior).fit(X, event)
    elif family == "poisson":
        model = PoissonRegression(prior=prior).fit(X, event * 2.0)
    elif family == "cox":
        model = CoxRegression(prior=prior).fit(X, Surv(rng.exponential(size=n), event))
    else:
        model = SelfControlledCaseSeries(prior=prior)
        model.fit(X, event * 1.0, strata=np.arange(n) // 4, exposure=np.ones(n))
    with pytest.warns(MonotoneLikelihoodWarning, match=r"'x0' \(towards −∞\)"):
        limits = model.confint("x0", method="profile")
    assert limits.lower.iloc[0] == -np.inf
    upper = float(limits.upper.iloc[0])
    top = model.inference.profile("x0", [upper - 30.0, upper])
    np.testing.assert_allclose(np.diff(top.log_likelihood), -HALF, atol=1e-6)
    with pytest.warns(MonotoneLikelihoodWarning):
        covered = model.inference.profile("x0")
    assert np.isfinite(covered.to_numpy()).all()
    assert abs(covered.log_likelihood.iloc[0] - top.log_likelihood[0]) < 1e-6


def test_a_maximum_is_not_looked_for_beyond_the_reach():
    """A standard error can be greater than what exp holds, where a column has no information."""
    asked = []

    class Falling:
        def fit(self, columns, values):
            asked.extend(values)
            return [ProfilePoint(v, -1e-3 * v, -1e-3) for v in values]

    (top,) = run_searches(Falling(), [0], [find_maximum(0.0, step=750.0, far=40.0)])
    assert min(asked) >= -40.0 * PROFILE.max_distance  # as far as limits are looked for
    assert top.rising_side == -1


# By step a column has a coefficient an interval.
@pytest.mark.sampled
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", [name for name in EVERY if name != "cox by step"])
def test_a_column_that_is_the_same_in_all_rows_has_no_ends_at_any_level(name, storage, rng):
    """Its profile is flat, and where values are so far out that η is rounded nothing is an end."""
    c = case(name, rng, n=150)
    c.X[:, 2] = 1.0
    c.extras["offset"] = rng.normal(size=150)
    model = c.fit(storage(c.X), prior=Laplace(0.5))
    assert np.count_nonzero(model.coef_) > 0
    for level in (0.05, 0.5, 0.95):
        with pytest.warns(MonotoneLikelihoodWarning):
            limits = model.confint("x2", level=level, method="profile").to_numpy()
        np.testing.assert_array_equal(limits, [[-np.inf, np.inf]])


def test_weights_are_repeated_rows_and_the_fit_stays_as_it_is(rng):
    c = case("conditional poisson", rng)
    w = rng.integers(0, 3, len(c.y)).astype(float)
    rows = np.repeat(np.arange(len(c.y)), w.astype(int))
    one = c.make().fit(c.X, c.y, sample_weight=w, **c.extras)
    before = one.summary()
    many = c.make().fit(c.X[rows], c.y[rows], **{k: v[rows] for k, v in c.extras.items()})
    np.testing.assert_allclose(
        one.confint(method="profile"), many.confint(method="profile"), atol=1e-6
    )
    pd.testing.assert_frame_equal(one.summary(), before)


def test_a_linear_model_refits_its_variance(rng):
    c = case("linear", rng, n=60)
    model = c.fit()
    A = np.column_stack([np.ones(60), c.X])
    names = list(model.summary().index)
    rss, df = model.sigma2_ * model.df_resid_, model.df_resid_
    se = np.sqrt(np.diag(np.linalg.inv(A.T @ A)) * rss / df)
    half = se * np.sqrt(df * np.expm1(2 * HALF / 60))  # n log(RSS(v) / RSS) = χ²
    expected = np.column_stack([model._coefficients() - half, model._coefficients() + half])
    np.testing.assert_allclose(model.confint(names, method="profile"), expected, rtol=1e-6)
    assert isinstance(model, LinearRegression)


def test_what_makes_no_sense_is_refused(rng):
    model = case("cox", rng).fit(prior=Laplace(0.1))
    with pytest.raises(DataError, match="Every coefficient has a prior"):
        model.confint(method="profile")
    with pytest.raises(DataError, match="points must be"):
        model.inference.profile("x0", "fine")
    with pytest.raises(DataError, match="points must be"):
        model.inference.profile("x0", [np.nan])
    with pytest.raises(DataError, match="further than exp can hold"):
        model.inference.profile("x0", [1e6])
    with pytest.raises(DataError, match="no coefficient 'y'"):
        model.inference.profile("y")
    with pytest.raises(DataError, match="cluster goes with"):
        model.confint("x0", method="profile", cluster=np.arange(200))
    with pytest.raises(DataError, match="method must be"):
        model.confint(method="likelihood")


@pytest.mark.parametrize("name", ["logistic", "cox"])
def test_intervals_are_in_the_units_of_the_columns(name, rng):
    own = case(name, rng)
    units = np.array([1e9, 1e-9, 1.0, 1e4, 1e-4])
    names = [f"x{j}" for j in range(5)]
    one = own.fit().confint(names, method="profile").to_numpy()
    two = own.fit(own.X * units).confint(names, method="profile").to_numpy()
    np.testing.assert_allclose(two * units[:, None], one, rtol=1e-4)


@pytest.mark.sampled
@pytest.mark.parametrize("far", [-30.0, -1e3, -1e5])
@pytest.mark.parametrize("family", ["logistic", "cox", "conditional"])
def test_one_row_that_is_far_out_ends_no_profile(family, far, rng):
    """It is predicted with certainty, and has no part in the likelihood around the estimate."""
    x, strata = rng.normal(size=120), np.arange(120) // 6
    y = (x + rng.logistic(size=120) > 0).astype(int)
    time = rng.exponential(np.exp(-0.7 * x))

    def limits(more):
        X = np.append(x, [far] * more)[:, None]
        if family == "cox":
            outcome = Surv(np.append(time, [9.0] * more), np.append(np.ones(120, int), [0] * more))
            model = CoxRegression().fit(X, outcome)
        elif family == "logistic":
            model = LogisticRegression().fit(X, np.append(y, [0] * more))
        else:
            codes = np.append(strata, [0] * more)
            model = ConditionalLogisticRegression().fit(X, np.append(y, [0] * more), strata=codes)
        return model.confint("x0", method="profile").to_numpy()

    np.testing.assert_allclose(limits(1), limits(0), rtol=1e-5)
