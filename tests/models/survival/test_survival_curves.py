"""Curves with intervals after a Cox fit: R's numbers, and averages by brute force."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from test_cox_against_r import CASES, fit

from reference_numbers import data, numbers
from steropes import CoxRegression, DataError, Laplace, Normal, Surv
from steropes.infer.survival_standard_errors import log_log_limits
from steropes.models.curves.cox_curves import standardized_survival_of_sample

AT = {"lung weights": [50, 200, 600], "veteran strata": [10, 50, 150], "heart": [10, 50, 400]}
COLUMNS = ["survival", "se", "lower", "upper"]


def drawn(rng, n=150, entry=False):
    X = np.column_stack([rng.random(n) < 0.5, rng.normal(size=n) + 20, rng.random(n) < 0.3]) * 1.0
    start = rng.uniform(0, 1, n) if entry else None
    time = np.ceil(8 * rng.exponential(np.exp(0.5 * X[:, 0] - X[:, 2]), n)) / 4 + 1.0
    y = Surv(time, rng.random(n) < 0.7, start)
    given = {
        "sample_weight": rng.integers(0, 3, n) * 1.0,
        "strata": np.array(["b", "a"])[rng.integers(0, 2, n)],
        "offset": rng.normal(size=n) * 0.2,
    }
    return X, y, given


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("case", AT)
def test_curves_are_survfit_s(case, ties):
    name, columns, strata, _ = CASES[case]
    d = data(name).iloc[[0, 39, 89]]
    given = {"strata": d[strata]} if strata else {}
    ours = fit(case, ties).curves.survival(d[columns], AT[case], kind="model", **given)
    assert list(ours.columns) == ["row", "time", *COLUMNS]
    assert ours["row"].tolist() == [0] * 3 + [1] * 3 + [2] * 3
    for i in range(3):
        expected = numbers(f"{case} {ties} curve {i + 1}")
        mine = ours.loc[ours["row"] == i, COLUMNS].to_numpy()[: len(expected)]
        np.testing.assert_allclose(mine, expected, rtol=2e-6, err_msg=str(i))


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array, pd.DataFrame])
def test_curves_are_predict_survival_with_an_interval(rng, storage):
    X, y, given = drawn(rng, entry=True)
    m = CoxRegression().fit(storage(X), y, **given)
    some = {k: given[k][:9] for k in ("strata", "offset")}
    table = m.curves.survival(storage(X[:9]), [0.5, 1.5, 3, 99], **some)
    expected = m.predict_survival(X[:9], [0.5, 1.5, 3, 99], **some)
    np.testing.assert_allclose(table["survival"], expected.ravel(), rtol=1e-10)
    late = table["time"] == 99
    assert table[late][COLUMNS].isna().all(axis=None)
    inside = table[~late & (table["survival"] < 1)]
    assert (inside["lower"] < inside["survival"]).all()
    assert (inside["survival"] < inside["upper"]).all()
    whole = m.curves.survival(storage(X[:9]), **some)
    for i in range(9):
        own = (given["strata"] == given["strata"][i]) & (given["sample_weight"] > 0)
        times = np.unique(y["time"][own & (y["event"] == 1)])
        np.testing.assert_array_equal(whole.loc[whole["row"] == i, "time"], times)


def test_steps_of_time_are_start_stop_rows(rng):
    X, y, _ = drawn(rng)
    m = CoxRegression(time_varying={0: [2.0]}).fit(X, y)
    late = y["time"] > 2
    first = Surv(np.minimum(y["time"], 2), np.where(late, 0, y["event"]), np.full(len(y), -1.0))
    second = Surv(y["time"][late], y["event"][late], np.full(late.sum(), 2.0))
    at = np.append(np.arange(len(y)), np.flatnonzero(late))
    after = np.arange(len(at)) >= len(y)
    Z = np.column_stack([X[at, 0] * ~after, X[at, 0] * after, X[at, 1:]])
    n = CoxRegression().fit(Z, np.concatenate([first, second]))
    np.testing.assert_allclose(m.coef_, n.coef_, atol=1e-7)
    before = m.curves.survival(X[:5], [1.5, 2.0])
    same = n.curves.survival(np.insert(X[:5], 1, 0.0, axis=1), [1.5, 2.0])
    np.testing.assert_allclose(before[COLUMNS], same[COLUMNS], rtol=1e-6)
    # for someone whose changing column is zero there is no step
    zero = X[:5].copy()
    zero[:, 0] = 0
    both = (
        m.curves.survival(zero, [1.5, 4.0]),
        n.curves.survival(np.insert(zero, 0, 0, 1), [1.5, 4]),
    )
    np.testing.assert_allclose(both[0][COLUMNS], both[1][COLUMNS], rtol=1e-6)


def test_a_column_far_from_zero_leaves_curves_as_they_are(rng):
    X, y, given = drawn(rng)
    far = X.copy()
    far[:, 1] += 3000
    tables = [
        CoxRegression(prior=Normal(3.0)).fit(Z, y, **given).curves.survival(
            Z[:4], [2.0], strata=given["strata"][:4]
        )[COLUMNS]
        for Z in (X, far)
    ]  # fmt: skip
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-6)


def test_baseline_hazard_has_the_curve_at_zero(rng):
    X, y, given = drawn(rng)
    X[:, 1] -= 20
    m = CoxRegression().fit(X, y, **given)
    table = m.curves.baseline_hazard()
    pd.testing.assert_frame_equal(
        table[m.curves.baseline_hazard(level=None).columns], m.curves.baseline_hazard(level=None)
    )
    for label in ("a", "b"):
        own = table[table["stratum"] == label]
        curve = m.curves.survival(np.zeros((1, 3)), own["time"], strata=[label])
        se = (curve["se"] / curve["survival"]).to_numpy()
        seen = ~np.isnan(se)  # but events without weight after all others
        assert seen.sum() > 10
        np.testing.assert_allclose(own["se"][seen], se[seen], rtol=1e-9)
    assert (table["lower"] < table["cumulative_hazard"]).all()


@pytest.mark.parametrize("effect", [0.25, -0.25])
@pytest.mark.parametrize("steps", [None, {0: [1.0]}])
def test_a_baseline_far_from_the_data_has_its_error(effect, steps, rng):
    """Calendar years of about 2010: e^±500 at year 0, whose square is beyond all numbers."""
    year = rng.integers(2005, 2016, 300) + 0.0
    time = np.round(rng.exponential(np.exp(-effect * (year - 2010))), 3) + 0.001
    y = Surv(time, rng.random(300) < 0.8)

    def table(origin):
        model = CoxRegression(time_varying=steps, tol=1e-12).fit((year - origin)[:, None], y)
        return model.curves.baseline_hazard()

    def variance(origin):  # of the logarithm, which is a parabola in where the origin is
        found = table(origin).iloc[[3, 100, -1]]
        return (found["se"] / found["cumulative_hazard"]).to_numpy() ** 2

    at = np.array([2000.0, 2010.0, 2020.0])
    near = np.stack([variance(origin) for origin in at])
    far = table(0.0)
    assert (far["lower"] < far["cumulative_hazard"]).all()
    assert (far["cumulative_hazard"] < far["upper"]).all()
    if steps is None:
        parabola = np.polynomial.Polynomial.fit
        expected = [parabola(at - 2010, x, 2)(-2010.0) for x in near.T]
        np.testing.assert_allclose(variance(0.0), expected, rtol=1e-5)
    else:  # until the effect changes
        first = np.polynomial.Polynomial.fit(at - 2010, near[:, 0], 2)(-2010.0)
        np.testing.assert_allclose(variance(0.0)[0], first, rtol=1e-5)


# -- averages --------------------------------------------------------------------------------------


def breslow(beta, Z, y, strata):
    """Event times and steps of Breslow's estimate at X = 0, stratum by stratum."""
    r = np.exp(Z @ beta)
    out = []
    for s in np.unique(strata):
        here = strata == s
        for t in np.unique(y["time"][here & (y["event"] == 1)]):
            S = r[here & (y["time"] >= t)].sum()
            d = (here & (y["event"] == 1) & (y["time"] == t)).sum()
            out.append((s, t, d / S, d / S**2))
    return out


def functionals(beta, bump, Z, y, strata, times):
    """S̄ and areas of both groups at each time, by definition."""
    steps = breslow(beta, Z, y, strata)
    out = []
    for value in (0.0, 1.0):
        X = Z.copy()
        X[:, 0] = value
        eta = np.exp(X @ beta)
        grid = np.unique([t for _, t, _, _ in steps] + list(times))
        H = np.zeros((len(Z), len(grid)))
        for (s, t, h, _), b in zip(steps, bump, strict=True):
            H += np.outer((strata == s) * eta, (grid >= t) * (h + b))
        mean = np.exp(-H).mean(axis=0)
        for t in times:
            out.append(mean[grid <= t][-1])
            edges = np.concatenate([[0], grid[grid < t], [t]])
            out.append((np.diff(edges) * np.concatenate([[1], mean[grid < t]])).sum())
    return np.array(out)


def test_averages_and_their_covariance_are_those_of_the_definition(rng):
    X, y, given = drawn(rng, 60)
    X[:, 1] -= 20
    strata = given["strata"]
    m = CoxRegression(ties="breslow", tol=1e-11).fit(X, y, strata=strata)
    times = [1.5, 2.75]
    found = m.curves.standardized_survival(X, times, by=0, strata=strata)
    steps = breslow(m.coef_, X, y, strata)
    v, zero = np.array([s[3] for s in steps]), np.zeros(len(steps))

    def f(beta, bump):
        return functionals(beta, bump, X, y, strata, times)

    value = f(m.coef_, zero)
    e = 1e-6
    by_beta = [
        (f(m.coef_ + e * np.eye(3)[j], zero) - f(m.coef_ - e * np.eye(3)[j], zero)) / (2 * e)
        for j in range(3)
    ]
    by_step = []
    for k in range(len(steps)):
        b = zero.copy()
        b[k] = 1e-6
        by_step.append((f(m.coef_, b) - f(m.coef_, -b)) / 2e-6)
    J, K = np.array(by_beta).T, np.array(by_step).T
    C = J @ m.vcov().to_numpy() @ J.T + (K * v) @ K.T
    # group 0: S, area at both times; then group 1
    survival, area = found.survival, found.restricted_means
    np.testing.assert_allclose(survival["survival"], value[[0, 2, 4, 6]], rtol=1e-7)
    np.testing.assert_allclose(area["mean"], value[[1, 3, 5, 7]], rtol=1e-7)
    se = np.sqrt(np.diag(C))
    np.testing.assert_allclose(survival["se"], se[[0, 2, 4, 6]], rtol=1e-5)
    np.testing.assert_allclose(area["se"], se[[1, 3, 5, 7]], rtol=1e-5)
    for table, at in ((found.differences, (0, 2)), (found.restricted_mean_differences, (1, 3))):
        for i, a in enumerate(at):
            c = np.zeros(8)
            c[[a + 4, a]] = 1, -1
            row = table.iloc[i]
            assert row["difference"] == pytest.approx(c @ value, rel=1e-6)
            assert row["se"] == pytest.approx(np.sqrt(c @ C @ c), rel=1e-4)
    for i, a in enumerate((0, 2)):
        for table, g in ((found.ratios, value), (found.risk_ratios, 1 - value)):
            c = np.zeros(8)
            c[[a + 4, a]] = 1 / g[a + 4], -1 / g[a]
            row = table.iloc[i]
            assert row["ratio"] == pytest.approx(g[a + 4] / g[a], rel=1e-6)
            assert np.log(row["upper"] / row["ratio"]) == pytest.approx(
                1.959964 * np.sqrt(c @ C @ c), rel=1e-4
            )
    assert found.differences["reference"].tolist() == [0, 0]


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array, pd.DataFrame])
@pytest.mark.parametrize("steps", [None, {0: [2.0]}])
def test_averages_are_those_of_predict_survival(rng, storage, steps):
    X, y, given = drawn(rng, entry=True)
    m = CoxRegression(time_varying=steps).fit(storage(X), y, **given)
    w = rng.uniform(0, 2, len(y))
    rest = {k: given[k] for k in ("strata", "offset")}
    found = m.curves.standardized_survival(storage(X), [3.5, 1.5], by=0, sample_weight=w, **rest)
    for value in (0, 1):
        Z = X.copy()
        Z[:, 0] = value
        expected = w @ m.predict_survival(Z, [1.5, 3.5], **rest) / w.sum()
        own = found.survival[found.survival["group"] == value]
        np.testing.assert_allclose(own["survival"], expected, rtol=1e-9)
        # the same by a mapping, and without groups
    Z0, Z1 = X.copy(), X.copy()
    Z0[:, 0], Z1[:, 0] = 0, 1
    mapped = m.curves.standardized_survival(
        storage(X), [1.5, 3.5], by={0: storage(Z0), 1: storage(Z1)}, sample_weight=w, **rest
    )
    for name in ("survival", "differences", "risk_ratios", "restricted_mean_differences"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(mapped, name), rtol=1e-7)
    alone = m.curves.standardized_survival(storage(Z1), [1.5, 3.5], sample_weight=w, **rest)
    assert alone.differences is None
    assert list(alone.survival.columns) == ["time", *COLUMNS]
    np.testing.assert_allclose(
        alone.survival[COLUMNS], mapped.survival.iloc[2:][COLUMNS], rtol=1e-7
    )


@pytest.mark.parametrize("name", ["time", "survival", "se", "reference", "ratio"])
def test_a_column_called_as_one_of_the_tables_gives_its_values_all_the_same(name, rng):
    X, y, _ = drawn(rng)
    frame = pd.DataFrame(X, columns=[name, *"bcdefg"[: X.shape[1] - 1]])
    found = CoxRegression().fit(frame, y).curves.standardized_survival(frame, [1.5, 3.5], by=name)
    expected = CoxRegression().fit(X, y).curves.standardized_survival(X, [1.5, 3.5], by=0)
    for table in ("survival", "restricted_means", "differences", "ratios"):
        pd.testing.assert_frame_equal(getattr(found, table), getattr(expected, table))


def test_one_person_s_average_is_their_curve(rng):
    X, y, _ = drawn(rng)
    m = CoxRegression().fit(X, y)
    one = m.curves.standardized_survival(X[:1], [1.5, 3.0]).survival
    curve = m.curves.survival(X[:1], [1.5, 3.0])
    np.testing.assert_allclose(one[COLUMNS], curve[COLUMNS], rtol=1e-9)


def test_ratios_of_risks_keep_their_digits_where_risks_are_small(rng):
    X, y, _ = drawn(rng)
    m = CoxRegression().fit(X, y)
    rare = np.full(len(X), -30.0)
    table = m.curves.standardized_survival(X, [0.1, 2.0], by=0, offset=rare).risk_ratios
    np.testing.assert_allclose(table["ratio"][1], np.exp(m.coef_[0]), rtol=1e-9)
    before = table.loc[0, ["ratio", "se", "lower", "upper"]]
    assert before.isna().all()  # of nothing to nothing


def test_an_interval_of_which_nothing_is_known_is_all_of_it():
    lower, upper = log_log_limits(np.array([1 - 1e-9, 0.5]), np.array([0.5, 0.0]), 0.95)
    np.testing.assert_array_equal(lower, [0.0, 0.5])
    np.testing.assert_array_equal(upper, [1.0, 0.5])


def test_order_and_weight_of_people_in_averages(rng):
    X, y, _ = drawn(rng)
    m = CoxRegression().fit(X, y)
    w = rng.integers(0, 3, len(y))
    by = rng.permutation(len(y))
    at = np.repeat(np.arange(len(y)), w)
    one = m.curves.standardized_survival(X, 2.0, by="x0", sample_weight=w).differences
    assert list(one.columns)[:3] == ["x0", "reference", "time"]
    for other in (
        m.curves.standardized_survival(X[by], 2.0, by="x0", sample_weight=w[by]).differences,
        m.curves.standardized_survival(X[at], 2.0, by="x0").differences,
    ):
        pd.testing.assert_frame_equal(one, other, rtol=1e-9)


def test_what_has_no_interval_is_refused(rng):
    X, y, given = drawn(rng)
    m = CoxRegression(prior=Laplace(0.05)).fit(X, y)
    for call in (
        lambda: m.curves.survival(X[:2]),
        lambda: m.curves.baseline_hazard(),
        lambda: m.curves.standardized_survival(X, [2.0]),
    ):
        with pytest.raises(DataError, match=r"Laplace prior\. predict_survival"):
            call()
    m = CoxRegression().fit(X, y, strata=given["strata"])
    with pytest.raises(DataError, match="pass those of the new rows"):
        m.curves.survival(X)
    m = CoxRegression().fit(X, y)
    with pytest.raises(DataError, match="times must be above 0"):
        m.curves.standardized_survival(X, [0.0, 1.0])
    with pytest.raises(DataError, match="150 values, too many"):
        m.curves.standardized_survival(X, 2.0, by=1)
    with pytest.raises(DataError, match="There is no coefficient 'drug'"):
        m.curves.standardized_survival(X, 2.0, by="drug")


def test_an_average_is_at_one_time_at_least(rng):
    X, y, _ = drawn(rng)
    with pytest.raises(DataError, match="times is empty"):
        CoxRegression().fit(X, y).curves.standardized_survival(X, [])


def test_averages_are_missing_after_the_last_time(rng):
    X, y, _ = drawn(rng)
    m = CoxRegression().fit(X, y)
    short, long = (
        m.curves.standardized_survival(X, t, by=0) for t in ([1.0, 2.0], [2.0, 1e4, 1.0])
    )
    for name, table in vars(long).items():
        late = table["time"] == 1e4
        pd.testing.assert_frame_equal(
            table[~late].reset_index(drop=True), getattr(short, name), check_dtype=False
        )
        assert table.loc[late, table.columns[-3:]].isna().all(axis=None)
        assert table["time"].tolist() == [1.0, 2.0, 1e4] * (len(table) // 3)
    assert m.curves.standardized_survival(X, 1e4).survival["survival"].isna().all()


def test_people_far_from_all_others_have_curves_too(rng):
    X, y, _ = drawn(rng)
    m = CoxRegression().fit(X, y)
    far = X[:2].copy()
    far[:, 1] += [5e4, -5e4]
    table = m.curves.survival(far, [0.01, 2.0, 5.0])
    assert np.isfinite(table[COLUMNS]).all(axis=None)
    expected = m.predict_survival(far, [0.01, 2.0, 5.0])
    np.testing.assert_allclose(table["survival"], expected.ravel(), atol=1e-12)
    found = m.curves.standardized_survival(far, [2.0, 5.0], by="x0")
    assert np.isfinite(found.survival[COLUMNS]).all(axis=None)


@pytest.mark.parametrize("labels", [["b", "a", "c"], [10, 9, -1], [("b", 1), ("a", 2), ("a", 1)]])
def test_strata_are_in_the_order_of_their_labels_whatever_that_of_the_rows(rng, labels):
    X, y, _ = drawn(rng)
    strata = np.empty(len(X), object)
    strata[:] = [labels[i] for i in rng.integers(0, 3, len(X))]
    by = rng.permutation(len(X))
    one, two = (
        CoxRegression().fit(X[i], y[i], strata=strata[i]).curves.baseline_hazard(level=None)
        for i in (np.arange(len(X)), by)
    )
    pd.testing.assert_frame_equal(one, two, rtol=1e-10)
    assert one["stratum"].drop_duplicates().tolist() == sorted(labels)


def test_labels_without_an_order_stay_as_they_come(rng):
    X, y, _ = drawn(rng)
    strata = np.empty(len(X), object)
    strata[:] = [("a", 1) if i % 2 else "a" for i in range(len(X))]
    table = CoxRegression().fit(X, y, strata=strata).curves.baseline_hazard(level=None)
    assert table["stratum"].drop_duplicates().tolist() == ["a", ("a", 1)]


def test_a_stratum_without_weight_has_no_average(rng):
    X, y, given = drawn(rng)
    weight = np.where(given["strata"] == "b", 0.0, 1.0)
    m = CoxRegression().fit(X, y, strata=given["strata"], sample_weight=weight)
    with pytest.raises(DataError, match=r"nobody of row \d+.s stratum has weight"):
        m.curves.standardized_survival(X, [2.0], strata=given["strata"])
    known = weight > 0
    one = m.curves.standardized_survival(X[known], [2.0], strata=given["strata"][known])
    two = m.curves.standardized_survival(X, [2.0], strata=given["strata"], sample_weight=weight)
    pd.testing.assert_frame_equal(one.survival, two.survival)


@pytest.mark.parametrize("by", [["a", "b"], ["a"], [], [True, False], True, 0.0])
def test_groups_of_several_columns_are_not_those_of_the_first(by, rng):
    X = pd.DataFrame(rng.integers(0, 2, (80, 2)) * 1.0, columns=["a", "b"])
    m = CoxRegression().fit(X, Surv(rng.exponential(1, 80), rng.random(80) < 0.6))
    with pytest.raises(DataError, match="by is the name or position of one column"):
        m.curves.standardized_survival(X, [0.5], by=by)


@pytest.mark.slow
def test_errors_of_a_sample_are_squares_of_derivatives_in_the_weights_of_people():
    """Of the fit and of the average, which has the people of one group."""
    rng = np.random.default_rng(4)
    people = pd.DataFrame({"x": rng.normal(size=40), "drug": np.arange(40) % 2.0})
    y = Surv(rng.exponential(np.exp(-people["x"] - 0.5 * people["drug"])), np.arange(40) % 4 > 0)
    rows = np.flatnonzero(people["drug"] == 1)

    def tables(w):
        model = CoxRegression(ties="breslow").fit(people, y, sample_weight=w)
        return model, model.curves.standardized_survival(
            people.iloc[rows], [0.7], by="drug", sample_weight=w[rows], kind="robust"
        )

    def differences(found):
        parts = (found.differences, found.restricted_mean_differences)
        return np.array([part["difference"].item() for part in parts])

    slopes = []
    for i in range(40):
        up, down = (np.where(np.arange(40) == i, np.exp(h), 1.0) for h in (1e-4, -1e-4))
        slopes.append((differences(tables(up)[1]) - differences(tables(down)[1])) / 2e-4)
    model, _ = tables(np.ones(40))
    for cluster in (None, np.arange(40) // 4):
        sums = np.array(slopes).reshape(-1, 1 if cluster is None else 4, 2).sum(axis=1)
        found = standardized_survival_of_sample(
            model, people.iloc[rows], rows, [0.7], "drug", cluster=cluster
        )
        both = found.differences, found.restricted_mean_differences
        errors = [part["se"].item() for part in both]
        np.testing.assert_allclose(errors, np.sqrt((sums**2).sum(axis=0)), rtol=1e-5)
