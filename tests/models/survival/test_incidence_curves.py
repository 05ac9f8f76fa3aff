"""Predicted incidences with standard errors: derivatives by weights, Aalen and Johansen, strata."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from steropes import DataError, FineGrayRegression, Laplace, Surv, aalen_johansen

COLUMNS = ["incidence", "se", "lower", "upper"]


def drawn(rng, n=120):
    X = np.column_stack([rng.random(n) < 0.5, rng.normal(size=n) + 10]) * 1.0
    time = rng.exponential(np.exp(-0.7 * X[:, 0]))
    code = np.where(rng.random(n) < 0.6, 1, 2)
    leave = rng.exponential(1.0, n)
    y = Surv(np.minimum(time, leave), np.where(time <= leave, code, 0))
    given = {
        "sample_weight": rng.uniform(0.5, 2, n),
        "strata": np.array(["b", "a"])[rng.integers(0, 2, n)],
        "offset": rng.normal(size=n) * 0.2,
    }
    return X, y, given


@pytest.mark.parametrize("stratified", [pytest.param(False, marks=pytest.mark.slow), True])
def test_standard_error_is_the_jackknife_s(rng, stratified):
    """Each row's weight moves β̂, the baseline and the censoring curve."""
    X, y, given = drawn(rng, 45)
    if not stratified:
        del given["strata"]
    new = {k: given[k][:3] for k in given if k != "sample_weight"}
    at = [0.2, 0.6]

    def curve(w):
        m = FineGrayRegression(tol=1e-11).fit(X, y, **(given | {"sample_weight": w}))
        return m, m.predict_cumulative_incidence(X[:3], at, **new)

    w = given["sample_weight"]
    m, _ = curve(w)
    influence = []
    for i in range(len(w)):
        ends = []
        for step in (-1e-4, 1e-4):
            v = w.copy()
            v[i] *= 1 + step
            ends.append(curve(v)[1])
        influence.append((ends[1] - ends[0]) / 2e-4)
    expected = np.sqrt((np.array(influence) ** 2).sum(axis=0))
    table = m.curves.incidence(X[:3], at, **new)
    # the censoring curve's part is by martingales, which differ by one over those at risk
    np.testing.assert_allclose(table["se"], expected.ravel(), rtol=0.03)
    clusters = np.arange(len(w)) // 3
    sums = np.zeros((20, 3, 2))
    np.add.at(sums, clusters, np.array(influence))
    table = m.curves.incidence(X[:3], at, cluster=clusters, **new)
    np.testing.assert_allclose(table["se"], np.sqrt((sums**2).sum(axis=0)).ravel(), rtol=0.03)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array, pd.DataFrame])
def test_curves_are_the_predicted_ones(rng, storage):
    X, y, given = drawn(rng)
    m = FineGrayRegression().fit(storage(X), y, **given)
    some = {k: given[k][:7] for k in ("strata", "offset")}
    table = m.curves.incidence(storage(X[:7]), [0.1, 0.5, 99], **some)
    expected = m.predict_cumulative_incidence(X[:7], [0.1, 0.5, 99], **some)
    np.testing.assert_allclose(table["incidence"], expected.ravel(), rtol=1e-9)
    late = table["time"] == 99
    assert table[late][COLUMNS].isna().all(axis=None)
    inside = table[~late]
    assert (inside["lower"] < inside["incidence"]).all()
    assert (inside["incidence"] < inside["upper"]).all()
    assert table["row"].tolist() == np.repeat(np.arange(7), 3).tolist()
    alone = m.curves.incidence(storage(X[:7]), [0.5], **some)["se"]
    np.testing.assert_allclose(alone, table.loc[table["time"] == 0.5, "se"], rtol=1e-12)
    own = m.curves.incidence(storage(X[:1]), strata=given["strata"][:1])
    times = y["time"][(given["strata"] == given["strata"][0]) & (y["event"] == 1)]
    np.testing.assert_array_equal(own["time"], np.sort(times))


def test_without_an_effect_it_is_near_aalen_and_johansen_s_error(rng):
    _, y, _ = drawn(rng, 400)
    x = rng.normal(size=(400, 1))
    m = FineGrayRegression().fit(x, y)
    ours = m.curves.incidence(np.array([[x.mean()]]), [0.3, 0.8])["se"]
    theirs = aalen_johansen(y).standard_error([0.3, 0.8])[1]
    np.testing.assert_allclose(ours, theirs, rtol=0.05)


def test_order_of_rows_and_a_far_column_do_not_matter(rng):
    X, y, given = drawn(rng)
    by = rng.permutation(len(y))
    one = FineGrayRegression().fit(X, y, **given)
    shuffled = {k: v[by] for k, v in given.items()}
    far = X + np.array([0, 4000])
    two = FineGrayRegression().fit(far[by], y[by], **shuffled)
    tables = [
        m.curves.incidence(Z[:4], [0.4], strata=given["strata"][:4])[COLUMNS]
        for m, Z in ((one, X), (two, far))
    ]
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-5)


def test_laplace_has_no_interval(rng):
    X, y, _ = drawn(rng)
    m = FineGrayRegression(prior=Laplace(0.1)).fit(X, y)
    with pytest.raises(DataError, match="Laplace prior"):
        m.curves.incidence(X[:1])
