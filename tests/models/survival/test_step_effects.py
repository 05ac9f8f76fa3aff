"""Step functions of time against the same model with explicit start–stop rows."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import steropes
from steropes.likelihoods.piecewise_cox_likelihood import cut_at


def _people(seed, n=160, late=True):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    X["d"] = (rng.random(n) < 0.3).astype(float)
    time = rng.integers(1, 30, n).astype(float)
    entry = np.where(rng.random(n) < 0.4, time - rng.integers(1, 25, n), -5.0) if late else None
    event = rng.integers(0, 2, n)
    more = {
        "sample_weight": rng.integers(0, 3, n) + 0.5 * rng.integers(0, 2, n),
        "offset": rng.normal(size=n),
        "strata": rng.choice(["u", "v", "w"], n),
    }
    return X, time, event, entry, more


def _expanded(X, time, event, entry, more, cuts):
    """Rows by person and interval, with a column for each step."""
    entry = np.full(len(time), -np.inf) if entry is None else entry
    edges = {name: [-np.inf, *points, np.inf] for name, points in cuts.items()}
    at = [-np.inf, *sorted({x for points in cuts.values() for x in points}), np.inf]
    rows = []
    for i in range(len(time)):
        for lo, hi in zip(at[:-1], at[1:], strict=True):
            if entry[i] < hi and time[i] > lo:
                x = {}
                for name in X.columns:
                    if name not in cuts:
                        x[name] = X[name].iloc[i]
                        continue
                    e = edges[name]
                    for k in range(len(e) - 1):
                        x[f"{name}/{k}"] = X[name].iloc[i] * (e[k] <= lo and hi <= e[k + 1])
                extra = {key: value[i] for key, value in more.items()}
                end = time[i] <= hi
                rows.append(
                    (x, max(entry[i], lo), min(time[i], hi), event[i] if end else 0, i, extra)
                )
    frame = pd.DataFrame([r[0] for r in rows])
    y = steropes.Surv([r[2] for r in rows], [r[3] for r in rows], [r[1] for r in rows])
    extra = pd.DataFrame([r[5] for r in rows]) if more else pd.DataFrame()
    return frame, y, np.array([r[4] for r in rows]), {c: extra[c].to_numpy() for c in extra}


@pytest.mark.sampled
@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("cuts", [{"b": [10, 20]}, {"d": [15], "a": [5, 15, 22]}])
@pytest.mark.parametrize(
    ("prior", "late"),
    [(None, False), (None, True), (steropes.Normal(0.5), True), (steropes.Laplace(0.05), False)],
)
def test_steps_are_start_stop_rows(ties, cuts, late, prior):
    X, time, event, entry, more = _people(1, late=late)
    y = steropes.Surv(time, event, entry)
    m = steropes.CoxRegression(ties=ties, time_varying=cuts, prior=prior, tol=1e-9)
    m.fit(X, y, **more)
    frame, y2, person, more2 = _expanded(X, time, event, entry, more, cuts)
    r = steropes.CoxRegression(ties=ties, prior=prior, tol=1e-9).fit(frame, y2, **more2)
    assert m.converged_
    assert r.converged_
    np.testing.assert_allclose(m.coef_, r.coef_, atol=1e-8)
    assert m.log_likelihood_ == pytest.approx(r.log_likelihood_, rel=1e-11)
    own, expected = (x.summary(kind="model")["se"] for x in (m, r))
    np.testing.assert_allclose(own, expected, rtol=1e-8, equal_nan=True)
    if prior is None:
        robust = r.vcov("robust", cluster=person).to_numpy()
        np.testing.assert_allclose(m.vcov("robust").to_numpy(), robust, rtol=1e-7)
        one, two = m.checks.proportionality("identity"), r.checks.proportionality("identity")
        np.testing.assert_allclose(one["chisq"], two["chisq"], rtol=1e-7)
    c = r.validation.concordance(
        frame, y2, sample_weight=more2["sample_weight"], strata=more2["strata"],
        offset=more2["offset"],
    )  # fmt: skip
    assert m.validation.concordance(X, y, **more) == pytest.approx(c, rel=1e-12)


@pytest.mark.parametrize("kind", ["dense", "csc", "mixed"])
def test_any_kind_of_columns_and_no_row_is_repeated(kind):
    rng = np.random.default_rng(4)
    n, p = 200, 6
    X = (rng.random((n, p)) < 0.3) * rng.integers(1, 3, (n, p)).astype(float)
    X[:, 0] = X[:, 0] > 0
    y = steropes.Surv(rng.integers(1, 30, n), rng.integers(0, 2, n))
    steps = {"x0": [10], "x3": [10, 20]}
    one = steropes.CoxRegression(time_varying=steps).fit(X, y)
    given = {
        "dense": X,
        "csc": sparse.csc_array(X),
        "mixed": steropes.Design(
            [
                *steropes.as_design(X[:, :2]).blocks,
                *steropes.as_design(sparse.csc_array(X[:, 2:])).blocks,
            ]
        ),
    }[kind]
    two = steropes.CoxRegression(time_varying=steps).fit(given, y)
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-9)
    design = two._problem.design
    rows = design.by_rows(np.arange(design.p), None, two._problem.likelihood.backend)
    stored = 0 if rows.X.lines is None else rows.X.lines.nnz
    assert stored <= np.count_nonzero(X)
    assert two.linear_predictor is not None
    assert design.n_eta > n


def test_a_person_per_interval_is_not_mistaken_for_a_row():
    """Where nobody crosses a step, pieces are as many as people, in another order."""
    rng = np.random.default_rng(2)
    n = 60
    X = rng.normal(size=(n, 2))
    entry = rng.choice([0.0, 10.0], n)
    time = entry + rng.integers(1, 11, n)
    y = steropes.Surv(time, rng.integers(0, 2, n), entry)
    offset = rng.normal(size=n)
    m = steropes.CoxRegression(time_varying={0: [10]}).fit(X, y, offset=offset)
    early = (entry == 0)[:, None]
    Z = np.column_stack([X[:, :1] * early, X[:, :1] * ~early, X[:, 1]])
    r = steropes.CoxRegression().fit(Z, y, offset=offset)
    np.testing.assert_allclose(m.coef_, r.coef_, atol=1e-8)


def test_pieces_cover_the_time_at_risk_once():
    rng = np.random.default_rng(0)
    time = rng.integers(1, 12, 50).astype(float)
    entry = time - rng.integers(1, 12, 50)
    cuts = np.array([3.0, 6.0, 9.0])
    row, _, end, event, start = cut_at(time, np.ones(50, int), entry, cuts)
    assert event.sum() == 50
    for i in range(50):
        mine = row == i
        for t in np.arange(-11, 12) + 0.5:
            inside = (np.maximum(start[mine], -np.inf) < t) & (t <= end[mine])
            lower = np.append(-np.inf, cuts)[np.searchsorted(cuts, end[mine], "left")]
            inside &= lower < t
            assert inside.sum() == (entry[i] < t <= time[i])


def test_names_and_their_prior():
    X, time, event, _, _ = _people(3, late=False)
    y = steropes.Surv(time, event)
    steps = {"b": [10, 20.5]}
    names = ["a", "b@(0,10]", "b@(10,20.5]", "b@(20.5,inf)", "c", "d"]
    for exclude in (["b"], [1], names[1:4]):
        m = steropes.CoxRegression(
            time_varying=steps, prior=steropes.Laplace(1e-6, exclude=exclude)
        ).fit(X, y)
        assert list(m.summary().index) == names
        assert np.all(m.coef_[1:4] != 0)
        assert not m.coef_[[0, 4, 5]].any()
    one = steropes.CoxRegression(
        time_varying=steps, prior=steropes.Laplace(1e-6, exclude=["b@(10,20.5]"])
    ).fit(X, y)
    assert list(np.flatnonzero(one.coef_)) == [2]
    vector = steropes.CoxRegression(
        time_varying=steps, prior=steropes.Normal(np.array([1e-12, 1.0, 1e-12, 1e-12]))
    ).fit(X, y)
    assert np.all(abs(vector.coef_[1:4]) > 1e-6)
    assert np.all(abs(vector.coef_[[0, 4, 5]]) < 1e-6)


def test_survival_multiplies_over_the_intervals():
    X, time, event, _, _ = _people(5, late=False)
    y = steropes.Surv(time, event)
    m = steropes.CoxRegression(time_varying={"b": [10, 20]}).fit(X, y)
    base = m.curves.baseline_hazard(level=None)
    steps = np.diff(np.append(0.0, base["cumulative_hazard"]))
    np.testing.assert_allclose(steps, base["hazard"], rtol=1e-9)
    q = np.searchsorted([10, 20], base["time"], side="left")
    for i in range(3):
        eta = X[["a", "c", "d"]].iloc[i] @ m.coef_[[0, 4, 5]] + X["b"].iloc[i] * m.coef_[1:4][q]
        total = np.cumsum(base["hazard"] * np.exp(eta))
        S = m.predict_survival(X.iloc[[i]], base["time"])
        np.testing.assert_allclose(S[0], np.exp(-total), rtol=1e-9)
        assert m.predict(X.iloc[[i]], time=15.0)[0] == pytest.approx(
            X[["a", "c", "d"]].iloc[i] @ m.coef_[[0, 4, 5]] + X["b"].iloc[i] * m.coef_[2]
        )
    with pytest.raises(steropes.DataError, match="time="):
        m.predict(X)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"z": [1]}, "'z'"),
        ({"b": []}, "cut points"),
        ({"b": [20, 10]}, "ascend"),
        ({"b": [np.inf]}, "finite"),
        ({9: [1]}, "position"),
        ({"b": [1], 1: [2]}, "twice"),
        ([1, 2], "mapping"),
    ],
)
def test_settings_that_make_no_sense(setting, message):
    X, time, event, _, _ = _people(3, late=False)
    with pytest.raises(steropes.DataError, match=message):
        steropes.CoxRegression(time_varying=setting).fit(X, steropes.Surv(time, event))


def test_cross_validation_keeps_people_whole():
    X, time, event, _, more = _people(6, n=200, late=False)
    y = steropes.Surv(time, event)
    cv = steropes.CrossValidation(4, search=[0.01, 0.1, 1.0], random_state=1, tol=1e-7)
    prior = steropes.Normal(1.0)
    m = steropes.CoxRegression(time_varying={"b": [10]}, prior=prior, cv=cv)
    m.fit(X, y, strata=more["strata"])
    assert m.variance_ in (0.01, 0.1, 1.0)
    assert m.cv_results_["mean"].notna().all()
    again = steropes.CoxRegression(
        time_varying={"b": [10]}, prior=steropes.Normal(m.variance_)
    ).fit(X, y, strata=more["strata"])
    np.testing.assert_allclose(m.coef_, again.coef_, atol=1e-7)


def test_a_mask_of_excluded_columns_is_of_the_columns_before_they_are_cut(rng):
    X = rng.normal(size=(200, 3))
    y = steropes.Surv(rng.exponential(size=200), rng.integers(0, 2, 200))
    fits = [
        steropes.CoxRegression(
            time_varying={0: [0.5]}, prior=steropes.Laplace(0.01, exclude=exclude)
        ).fit(X, y)
        for exclude in (np.array([True, False, True]), [0, 2], 1)
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].prior_.excluded(fits[0].summary().index.tolist()).tolist() == [1, 1, 0, 1]
    assert fits[2].prior_.excluded(fits[2].summary().index.tolist()).tolist() == [0, 0, 1, 0]


def test_linear_predictors_of_step_effects_need_a_time():
    X, time, event, _, _ = _people(5)
    m = steropes.CoxRegression(time_varying={"a": [10.0]}).fit(X, steropes.Surv(time, event))
    with pytest.raises(steropes.DataError, match=r"predict\(X, time=…\)"):
        m.linear_predictor(X)
    assert len(m.predict(X, time=5.0)) == len(X)
    for time in (np.nan, [1.0, 2.0], "5"):
        with pytest.raises(steropes.DataError, match="time must be one number"):
            m.predict(X, time=time)
