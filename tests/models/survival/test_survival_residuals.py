"""Residuals of survival models: R's numbers, their sums, and what refits say."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from test_cox_against_r import fit

import steropes
from reference_numbers import data, numbers
from steropes import CoxRegression, DataError, FineGrayRegression, Laplace, Normal, Surv

KINDS = ["martingale", "deviance", "score", "dfbeta", "schoenfeld", "scaled_schoenfeld"]
EVERY = slice(None, None, 11)  # R's numbers are of every eleventh row


def rows(rng, n=60, entry=True):
    X = np.column_stack([rng.normal(size=n), rng.random(n) < 0.4, rng.normal(size=n)]) * 1.0
    start = np.round(rng.uniform(0, 3, n)) if entry else None
    time = np.ceil(rng.exponential(5, n)) + (0 if start is None else start)
    y = Surv(time, rng.random(n) < 0.6, start)
    given = {
        "sample_weight": rng.integers(0, 4, n).astype(float),
        "strata": np.array(["b", "a"])[rng.integers(0, 2, n)],
        "offset": rng.normal(size=n) * 0.3,
    }
    return X, y, given


@pytest.mark.sampled
@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("case", ["lung weights", "veteran strata", "heart"])
@pytest.mark.parametrize("kind", KINDS)
def test_residuals_are_those_of_residuals_coxph(case, ties, kind):
    ours = np.asarray(fit(case, ties).checks.residuals(kind))
    name = kind.replace("scaled_schoenfeld", "scaledsch")
    expected = numbers(f"{case} {ties} {name}")
    np.testing.assert_allclose(ours[EVERY], expected, rtol=1e-6, atol=5e-7)


def test_fine_gray_residuals_are_those_of_weighted_rows():
    d = data("few")
    m = FineGrayRegression().fit(d[["age", "male", "mspike", "hgb"]], Surv(d["time"], d["code"]))
    ours = m.checks.residuals("martingale")
    np.testing.assert_allclose(ours[EVERY], numbers("few martingale"), rtol=1e-6, atol=1e-7)
    ours = m.checks.residuals("schoenfeld").to_numpy()
    np.testing.assert_allclose(ours[EVERY], numbers("few schoenfeld"), rtol=1e-6, atol=1e-6)
    with pytest.raises(DataError, match="kind must be one of"):
        m.checks.residuals("deviance")


@pytest.mark.parametrize("entry", [False, True])
@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_sums_over_the_rows_are_the_gradient_which_is_zero(rng, ties, entry):
    X, y, given = rows(rng, entry=entry)
    m = CoxRegression(ties=ties).fit(X, y, **given)
    w = given["sample_weight"]
    some = w > 0
    assert np.isnan(m.checks.residuals("martingale")[~some]).all()
    assert abs(w[some] @ m.checks.residuals("martingale")[some]) < 1e-9
    np.testing.assert_allclose(w[some] @ m.checks.residuals("score").to_numpy()[some], 0, atol=1e-6)
    np.testing.assert_allclose(m.checks.residuals("dfbeta").sum(), 0, atol=1e-7)
    assert (m.checks.residuals("dfbeta")[~some] == 0).all(axis=None)
    # Efron's method weighs a tied event by the mean weight, so that only Breslow's adds up
    if ties == "breslow":
        s = m.checks.residuals("schoenfeld")
        event = np.flatnonzero((y["event"] == 1) & some)
        other = given["strata"][event] != given["strata"][0]  # strata as they first come
        by = np.lexsort((event, y["time"][event], other))
        np.testing.assert_allclose(w[event[by]] @ s.to_numpy(), 0, atol=1e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array, pd.DataFrame])
@pytest.mark.parametrize("kind", KINDS)
def test_storage_and_order_of_rows_do_not_matter(rng, kind, storage):
    X, y, given = rows(rng)
    given["sample_weight"][:] = rng.uniform(0.5, 2, len(y))
    expected = CoxRegression().fit(X, y, **given).checks.residuals(kind)
    by = rng.permutation(len(y))
    m = CoxRegression().fit(storage(X[by]), y[by], **{k: v[by] for k, v in given.items()})
    ours = m.checks.residuals(kind)
    if "schoenfeld" in kind:  # sorted; tied events may change places, and labels their order
        ours = ours.sort_index().groupby(level=[0, 1]).sum().to_numpy()
        expected = expected.sort_index().groupby(level=[0, 1]).sum().to_numpy()
    else:
        expected = np.asarray(expected)[by]
    np.testing.assert_allclose(np.asarray(ours), expected, atol=2e-7)
    again = m.checks.residuals(kind)
    np.testing.assert_array_equal(np.asarray(m.checks.residuals(kind)), np.asarray(again))


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_weights_are_repeated_rows(rng, ties):
    X, y, given = rows(rng)
    w = given.pop("sample_weight").astype(int)
    y["time"] += rng.permutation(len(y)) * 1e-3  # copies tie, and under Efron's method each counts
    at = np.repeat(np.arange(len(y)), w)
    if ties == "efron":
        w, at = np.minimum(w, 1), np.flatnonzero(w)
    one = CoxRegression(ties=ties).fit(X, y, sample_weight=w, **given)
    many = CoxRegression(ties=ties).fit(X[at], y[at], **{k: v[at] for k, v in given.items()})
    for kind in ("martingale", "score"):
        mine, theirs = (
            np.asarray(one.checks.residuals(kind)),
            np.asarray(many.checks.residuals(kind)),
        )
        np.testing.assert_allclose(mine[at], theirs, atol=1e-7)
    added = many.checks.residuals("dfbeta").groupby(at).sum()
    np.testing.assert_allclose(one.checks.residuals("dfbeta").loc[added.index], added, atol=1e-8)


def test_dfbeta_is_the_derivative_of_the_estimate_by_the_weight(rng):
    X, y, given = rows(rng)
    w = given.pop("sample_weight") + 0.5
    m = CoxRegression(prior=Normal(0.7), tol=1e-11).fit(X, y, sample_weight=w, **given)
    dfbeta = m.checks.residuals("dfbeta").to_numpy()
    for i in (0, 7, 31):
        coef = []
        for step in (-1e-4, 1e-4):
            v = w.copy()
            v[i] *= 1 + step
            n = CoxRegression(prior=Normal(0.7), tol=1e-11).fit(X, y, sample_weight=v, **given)
            coef.append(n.coef_)
        np.testing.assert_allclose((coef[1] - coef[0]) / 2e-4, dfbeta[i], rtol=2e-2, atol=2e-4)


def test_steps_of_time_are_start_stop_rows(rng):
    X, y, given = rows(rng, entry=False)
    del given["strata"]
    m = CoxRegression(time_varying={0: [4.0]}).fit(X, y, **given)
    late = y["time"] > 4
    first = Surv(np.minimum(y["time"], 4), np.where(late, 0, y["event"]), np.full(len(y), -1.0))
    second = Surv(y["time"], y["event"], np.full(len(y), 4.0) - 1e300 * ~late)[late]
    at = np.append(np.arange(len(y)), np.flatnonzero(late))
    long = X[at]
    second_part = np.arange(len(at)) >= len(y)
    Z = np.column_stack([long[:, 0] * ~second_part, long[:, 0] * second_part, long[:, 1:]])
    n = CoxRegression().fit(
        Z, np.concatenate([first, second]), **{k: v[at] for k, v in given.items()}
    )
    np.testing.assert_allclose(m.coef_, n.coef_, atol=1e-7)
    for kind in ("martingale", "score", "dfbeta"):
        theirs = pd.DataFrame(np.asarray(n.checks.residuals(kind))).groupby(at).sum(min_count=1)
        ours = pd.DataFrame(np.asarray(m.checks.residuals(kind)))
        np.testing.assert_allclose(ours.to_numpy(), theirs.to_numpy(), atol=1e-6)
    np.testing.assert_allclose(
        m.checks.residuals("schoenfeld").to_numpy(),
        n.checks.residuals("schoenfeld").to_numpy(),
        atol=1e-6,
    )


def test_columns_by_name_and_the_index(rng):
    X, y, given = rows(rng)
    m = CoxRegression().fit(pd.DataFrame(X, columns=list("abc")), y, **given)
    all_of_them = m.checks.residuals("dfbeta")
    assert list(all_of_them) == list("abc")
    pd.testing.assert_frame_equal(m.checks.residuals("dfbeta", ["c", "a"]), all_of_them[["c", "a"]])
    s = m.checks.residuals("scaled_schoenfeld", "b")
    assert s.index.names == ["stratum", "time"]
    plain = CoxRegression().fit(X, y).checks.residuals("schoenfeld")
    assert plain.index.name == "time"
    assert (plain.index == np.sort(y["time"][y["event"] == 1])).all()


def test_what_is_not_there_is_refused(rng):
    X, y, _ = rows(rng)
    m = CoxRegression(prior=Laplace(0.05)).fit(X, y)
    assert np.isfinite(m.checks.residuals("martingale")).all()
    assert np.isfinite(m.checks.residuals("score")).all(axis=None)
    with pytest.raises(DataError, match="Laplace prior"):
        m.checks.residuals("dfbeta")
    with pytest.raises(DataError, match="leave params out"):
        m.checks.residuals("martingale", params="x0")
    with pytest.raises(DataError, match="kind must be one of 'martingale'"):
        m.checks.residuals("pearson")
    import pickle

    with pytest.raises(DataError, match="unpickled without its data"):
        pickle.loads(pickle.dumps(m)).checks.residuals()


def test_scores_square_to_the_robust_covariance(rng):
    X, y, given = rows(rng)
    code = np.where((y["event"] == 0) & (rng.random(len(y)) < 0.5), 2, y["event"])
    competing = steropes.Surv(y["time"], code)
    for m in (
        CoxRegression().fit(X, y, **given),
        FineGrayRegression().fit(X, competing, **given),
    ):
        d = m.checks.residuals("dfbeta").to_numpy()
        np.testing.assert_allclose(d.T @ d, m.vcov("robust"), rtol=1e-8, atol=1e-14)


def test_dfbetas_are_dfbeta_by_the_standard_error():
    m = fit("veteran strata", "efron")
    expected = m.checks.residuals("dfbeta") / m.summary()["se"]
    pd.testing.assert_frame_equal(m.checks.residuals("dfbetas"), expected)


def test_dfbetas_of_fine_gray_models_are_dfbeta_by_the_standard_error(rng):
    X, y = rng.normal(size=(80, 2)), Surv(rng.exponential(size=80), rng.integers(0, 3, 80))
    m = FineGrayRegression().fit(X, y)
    expected = m.checks.residuals("dfbeta") / m.summary()["se"]
    pd.testing.assert_frame_equal(m.checks.residuals("dfbetas"), expected)
