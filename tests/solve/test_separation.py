"""Diverging coefficients, and no others, are named in any unit and with any offset."""

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse

import steropes
from drawn_families import FAMILIES, WITH_OFFSET, N, drawn
from steropes import SeparationError


def separated(X, event, rng, kind):
    """X with columns in front whose coefficients have no finite estimate, and their number."""
    if kind == "indicator":  # ones among those without the outcome only
        return np.column_stack([~event & (rng.random(N) < 0.3), X]), 1
    if kind == "value":  # never above zero with the outcome, never below without
        x = np.where(event, 0.0, np.where(rng.random(N) < 0.5, rng.random(N), 0.0))
        return np.column_stack([1e4 * x, X]), 1
    a = rng.normal(size=N)  # neither column alone: their difference
    b = a - np.where(event, 0.0, np.where(rng.random(N) < 0.4, rng.random(N), 0.0))
    return np.column_stack([a, b, X]), 2


def fitted(family, kind, prior, seed=0, **fit):
    """Fit a separated problem, with the number of columns that separate."""
    rng = np.random.default_rng(seed)
    model, settings, X, y, more, event = drawn(family, rng)
    X, k = separated(X, event, rng, kind)
    if prior is not None:
        exclude = list(range(k))
        settings = {**settings, "prior": prior(1.0, exclude=exclude)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", steropes.NotConvergedWarning)
        with pytest.raises(SeparationError, match="no finite maximum") as caught:
            model(**settings).fit(X, y, **more, **fit)
    return caught.value.columns, k


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "seed", "prior"),
    [
        *((kind, 0, None) for kind in ("indicator", "value", "difference")),
        ("difference", 1, steropes.Laplace),
        ("value", 2, steropes.Normal),
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_columns_that_separate_are_named_with_and_without_a_prior_on_the_others(
    family, kind, seed, prior
):
    columns, k = fitted(family, kind, prior, seed)
    assert set(columns) == {f"x{j}" for j in range(k)}


@pytest.mark.sampled
@pytest.mark.parametrize("prior", [None, steropes.Laplace])
@pytest.mark.parametrize("shift", [-40.0, -15.0, -10.0, 10.0, 15.0, 40.0])
@pytest.mark.parametrize("family", WITH_OFFSET)
def test_an_offset_that_the_intercept_absorbs_hides_no_separation(family, shift, prior):
    columns, _ = fitted(family, "indicator", prior, offset=np.full(N, shift))
    assert columns == ["x0"]


@pytest.mark.sampled
@pytest.mark.parametrize("size", [1e-5, 1e5])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_unit_of_the_weights_hides_no_separation(family, size):
    columns, _ = fitted(family, "indicator", None, sample_weight=np.full(N, size))
    assert columns == ["x0"]


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
def test_an_estimate_far_out_is_no_separation(family):
    """One row against the rest of a column keeps the estimate finite, in whatever unit."""
    rng = np.random.default_rng(5)
    model, settings, X, y, more, event = drawn(family, rng)
    x = (~event & (rng.random(N) < 0.6)).astype(float)
    more = {k: np.zeros(N, int) for k in more}  # one stratum: all rows against each other
    x[np.flatnonzero(event)[-1]] = 1.0
    if family == "conditional":
        settings = {"method": "efron"}
    far = np.column_stack([x, X])
    reference = model(**settings).fit(far, y, **more).coef_
    if family in WITH_OFFSET:
        for shift in (-20.0, -10.0, 15.0, 40.0):
            m = model(**settings).fit(far, y, offset=np.full(N, shift), **more)
            np.testing.assert_allclose(m.coef_, reference, rtol=1e-5)
    for size in (1e-5, 1e5):
        m = model(**settings).fit(far, y, sample_weight=np.full(N, size), **more)
        np.testing.assert_allclose(m.coef_, reference, rtol=1e-5)
    m = model(**settings).fit(far * [1e-6, 1, 1e6, 1, 1], y, **more)
    np.testing.assert_allclose(m.coef_ * [1e-6, 1, 1e6, 1, 1], reference, rtol=1e-5)


def test_one_row_in_a_million_keeps_an_estimate_finite():
    X = np.array([[1.0], [1.0], [0.0], [0.0]])
    w = np.array([1e6 - 1, 1.0, 1.0, 1e6 - 1])
    m = steropes.LogisticRegression().fit(X, [1, 0, 1, 0], sample_weight=w)
    assert m.coef_[0] == pytest.approx(2 * np.log(1e6 - 1), rel=1e-8)


@pytest.mark.parametrize("size", [1e-18, 1e-8, 1e-3, 1.0, 1e8])
def test_a_poisson_model_knows_no_unit_of_the_counts(size, rng):
    X = rng.normal(size=(300, 3))
    y = rng.poisson(np.exp(0.5 * X[:, 0])).astype(float)
    reference = steropes.PoissonRegression().fit(X, y)
    m = steropes.PoissonRegression().fit(X, size * y)
    # The counts are the evidence: the certificate is in standard errors, which they determine.
    near = 1e-7 * max(1.0, size**-0.5)
    np.testing.assert_allclose(m.coef_, reference.coef_, atol=near)
    assert m.intercept_ - np.log(size) == pytest.approx(reference.intercept_, abs=near)


def test_rates_weighted_by_person_time_are_counts_with_an_exposure(rng):
    X = np.column_stack([rng.normal(size=400), rng.random(400) < 0.1])
    days = 365.25 * rng.lognormal(2, 1.5, 400)
    y = rng.poisson(1e-3 * days * np.exp(0.3 * X[:, 0]))
    counts = steropes.PoissonRegression().fit(X, y, exposure=days)
    rates = steropes.PoissonRegression().fit(X, y / days, sample_weight=days)
    np.testing.assert_allclose(rates.coef_, counts.coef_, rtol=1e-6)
    # and by seconds
    rates = steropes.PoissonRegression().fit(X, y / days / 86400, sample_weight=days * 86400)
    np.testing.assert_allclose(rates.coef_, counts.coef_, rtol=1e-6)


def test_complete_separation_is_refused(rng):
    X = rng.normal(size=(60, 3))
    y = (X @ [1.0, -1.0, 0.5] > 0.2).astype(int)
    for shift in (0.0, 12.0):
        with pytest.raises(SeparationError, match="no finite maximum"):
            steropes.LogisticRegression().fit(X, y, offset=np.full(60, shift))


def test_the_separation_check_under_a_ridge_makes_no_matrix_of_all_columns(rng):
    n, p = 40, 1500
    X = sparse.random_array((n, p), density=0.02, format="csc", rng=rng)
    y = np.arange(n) % 2
    from steropes.infer.information_matrix import refuse_separated

    m = steropes.LogisticRegression(prior=steropes.Normal(0.1)).fit(X, y)
    l1, l2 = m._problem.penalties(m.prior_)
    tracemalloc.start()
    refuse_separated(m._problem, m._beta, l1, l2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * p * p / 50


@pytest.mark.parametrize("offset", [None, -15.0, 15.0])
@pytest.mark.parametrize("prior", [None, "normal"])
def test_a_diverging_pooled_baseline_is_refused_with_any_offset(offset, prior):
    """A quadratic over three intervals is saturated: the last, without an event, has no end."""
    rng = np.random.default_rng(0)
    time = np.repeat([1, 2, 3], [30, 15, 4])
    event = np.concatenate([rng.random(30) < 0.3, rng.random(15) < 0.3, np.zeros(4)]).astype(int)
    X = rng.normal(size=(49, 1))
    given = None if prior is None else steropes.Normal(1.0)
    far = None if offset is None else np.full(49, offset)
    model = steropes.PooledLogisticRegression(interval=1.0, baseline=2, prior=given)
    with pytest.raises(SeparationError, match="no finite maximum"):
        model.fit(X, steropes.Surv(time, event), offset=far)


def test_strata_whose_risk_sets_underflow_far_out_hide_no_separation():
    """A stratum's sums are zero far along the direction, so slopes are taken less far out."""
    X = np.zeros((8, 2))
    X[[3, 7], 0] = 1
    time = [0.0779, 0.2672, 0.0710, 0.8237, 1.7368, 1.6989, 2.9318, 0.3346]
    y = steropes.Surv(time, [1, 0, 1, 0, 0, 1, 0, 1])
    with pytest.raises(steropes.SeparationError, match="x0"):
        steropes.CoxRegression(prior=steropes.Laplace(1.0, exclude=[0])).fit(
            X, y, strata=[1, 2, 0, 0, 0, 2, 0, 1]
        )


def test_a_heavy_row_beside_a_rare_column_hides_no_separation():
    """A leap to where 1 − p is zero in rounding would end where every slope seems to be gone."""
    rng = np.random.default_rng(0)
    x, y = np.zeros(60), np.zeros(60)
    x[:6], y[:6], y[6] = -1.0, 1.0, 1.0
    w = np.where(x == 0, rng.lognormal(0.0, 3.0, 60), 0.8)
    w[10] = 800.0
    with pytest.raises(SeparationError, match="no finite maximum"):
        steropes.LogisticRegression().fit(x[:, None], y, sample_weight=w, offset=np.full(60, 15.0))


RARE = {
    "logistic": lambda X, t, e, w: steropes.LogisticRegression().fit(X, e, sample_weight=w),
    "poisson": lambda X, t, e, w: steropes.PoissonRegression().fit(X, e, sample_weight=w),
    "cox": lambda X, t, e, w: steropes.CoxRegression().fit(X, steropes.Surv(t, e), sample_weight=w),
    "fine-gray": lambda X, t, e, w: steropes.FineGrayRegression().fit(
        X, steropes.Surv(t, e), sample_weight=w
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("storage", "wide"), [(np.asarray, False), (sparse.csc_array, False), (sparse.csc_array, True)]
)
@pytest.mark.parametrize("kind", ["none", "all", "none but one", "all but one"])
@pytest.mark.parametrize("family", RARE)
def test_five_people_of_five_thousand_separate_unless_one_differs(family, kind, storage, wide):
    """Where information is spent, slopes are rounding of all the other rows."""
    rng = np.random.default_rng(1)
    n, few = 5_000, np.arange(5)
    X = np.zeros((n, 3))
    X[few, 0], X[:, 1], X[:, 2] = 10.0, rng.random(n) < 0.3, rng.normal(size=n)
    t, e = rng.exponential(size=n), (rng.random(n) < 0.05).astype(int)
    e[few] = 0 if kind.startswith("none") else 1
    if kind.startswith("all"):
        t[few] = 1e-6 * (1 + few)  # before all others
    if kind.endswith("but one"):
        e[0], t[0] = 1 - e[0], 50.0 if kind.startswith("all") else t[0]
    w = rng.lognormal(0.0, 2.0, n) if wide else None
    fit = RARE[family]
    if kind.endswith("but one") or (family == "poisson" and kind == "all"):
        assert np.abs(fit(storage(X), t, e, w).coef_).max() < 2.0
    else:
        with pytest.raises(SeparationError, match="coefficients of 'x0' go"):
            fit(storage(X), t, e, w)


def test_a_column_that_balances_an_offset_of_hundreds_is_not_separated():
    """Without an intercept the start lies where means are 1e65: information there says nothing."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(4.0, 1.0, 28), rng.poisson(4.0, 28)
    offset = np.full(28, 150.0)
    fit = steropes.PoissonRegression(prior=None, fit_intercept=False)
    fit.fit(x[:, None], y, offset=offset)
    mu = np.exp(x * fit.coef_[0] + offset)
    assert abs(x @ (mu - y)) < 1e-6 * (x @ mu + x @ y)


@pytest.mark.parametrize("offset", [12.0, 15.0])
def test_baselines_far_out_by_unequal_lengths_hide_no_separation(offset):
    """From far out each interval's way back is another: none may be sent beyond return."""
    rng = np.random.default_rng(4)
    time = rng.choice(np.arange(1, 7), 98, p=[0.55, 0.2, 0.1, 0.06, 0.05, 0.04])
    event = (rng.random(98) < 0.3).astype(int)
    event[time == 6] = np.arange((time == 6).sum()) % 2
    for k in range(1, 7):
        event[np.flatnonzero(time == k)[:1]] = 1
    X = (rng.random((98, 2)) < 0.3).astype(float)
    X[:, 0] = 0
    X[np.flatnonzero((time == 1) & (event == 1))[:3], 0] = 1
    model = steropes.PooledLogisticRegression(interval=1.0, baseline="interval")
    with pytest.raises(SeparationError, match="coefficients of 'x0' go"):
        model.fit(X, steropes.Surv(time, event), offset=np.full(98, offset))


@pytest.mark.parametrize("shift", [-40.0, 30.0, 37.0, 40.0, 300.0])
def test_an_offset_at_which_one_minus_p_is_zero_hides_no_separation(shift):
    """Without an intercept the start is at the offset, where all probabilities round to one."""
    n = 50
    x, y = np.arange(n) == 0, np.arange(n) % 3 == 0
    X = np.column_stack([np.ones(n), x])
    with pytest.raises(SeparationError, match="coefficients of 'x1' go"):
        steropes.LogisticRegression(fit_intercept=False).fit(X, y, offset=np.full(n, shift))
    x = np.arange(n) < 2  # the second has no event
    m = steropes.LogisticRegression(fit_intercept=False)
    m.fit(np.column_stack([np.ones(n), x]), y, offset=np.full(n, shift))
    a, b = np.log(16 / 32), np.log(1 / 1)  # events over others
    np.testing.assert_allclose(m.coef_, [a - shift, b - a], rtol=1e-7)


@pytest.mark.parametrize("kind", ["conditional", "cox", "logistic"])
def test_rows_separated_by_penalised_columns_hide_no_separation(kind):
    """At the end of the fit nothing is left of the information on the column without penalty."""
    n, rng = 40, np.random.default_rng(5)
    case = np.arange(n) % 4 == 0
    X = np.column_stack([rng.normal(size=n), 1e17 * case, np.zeros(n)])
    X[1, 2] = 1.0  # one control: the lower the better
    prior = steropes.Laplace(1.0, exclude=[2])
    more = {}
    if kind == "conditional":
        model = steropes.ConditionalLogisticRegression(prior=prior, method="breslow")
        y, more = case.astype(float), {"strata": np.arange(n) // 4}
    elif kind == "cox":
        model = steropes.CoxRegression(prior=prior)
        y = steropes.Surv(np.where(case, 1.0, 2.0), case)
    else:
        model, y = steropes.LogisticRegression(prior=prior), case
    with pytest.raises(SeparationError, match="x2") as raised:
        model.fit(X, y, **more)
    assert raised.value.columns == ["x2"]


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
def test_a_value_far_from_all_others_is_named_instead_of_a_separation(storage):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    sick = rng.random(300) < 1 / (1 + np.exp(-X[:, 0]))
    time, dead = rng.exponential(size=300), rng.random(300) < 0.5
    X[8, 1] = 1e14
    for model, y in ((steropes.LogisticRegression(), sick),
                     (steropes.CoxRegression(), steropes.Surv(time, dead))):  # fmt: skip
        with pytest.raises(
            SeparationError, match=r"cannot be determined.* 'x1' in row 8"
        ) as caught:
            model.fit(storage(X), y)
        assert caught.value.columns == ["x1"]
    X[:, 1] = np.arange(300) == 8  # a rare exposure is far from nobody
    with pytest.raises(SeparationError, match=r"no finite maximum.*'x1'"):
        steropes.LogisticRegression().fit(storage(X), sick)
