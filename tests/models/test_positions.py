"""Positions count the columns of X as the user gave them, whatever else the fit was given."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from every_family import EVERY, case
from steropes import (
    CoxRegression,
    DataError,
    GroupLaplace,
    Laplace,
    LogisticRegression,
    Normal,
    Surv,
    plots,
)

PLAIN = [name for name in EVERY if name not in ("cox by step", "pooled change")]
INFINITE_PENALTY = {0: 0.3, 2: -0.1}


def in_storage(X, kind):
    names = [f"x{j}" for j in range(X.shape[1])]
    if kind == "frame":
        return pd.DataFrame(X, columns=names)
    return sparse.csc_array(X) if kind == "sparse" else X


@pytest.mark.sampled
@pytest.mark.parametrize("family", PLAIN)
def test_positions_of_coefficients_do_not_depend_on_which_are_fixed(family, rng):
    c = case(family, rng)
    X = in_storage(c.X, ("dense", "sparse", "frame")[PLAIN.index(family) % 3])
    m = c.make().fit(X, c.y, **c.extras, fixed=INFINITE_PENALTY)
    first = len(m.summary()) - 3  # an intercept or a baseline
    for j in (1, 3, 4):
        name = f"x{j}"
        for position in (first + j, j - 5, np.int64(first + j)):
            assert list(m.confint(position).index) == [name]
        assert list(m.confint([position], method="profile").index) == [name]
        pd.testing.assert_series_equal(
            m.inference.linear_hypothesis([first + j]), m.inference.linear_hypothesis(name)
        )
    pd.testing.assert_frame_equal(
        m.inference.profile(first + 3, [0.1]), m.inference.profile("x3", [0.1])
    )
    assert list(m.inference.profile([first + 3, first + 1], [0.1])["param"]) == ["x3", "x1"]
    assert list(m.confint().index[first:]) == ["x1", "x3", "x4"]


@pytest.mark.parametrize("family", PLAIN)
def test_a_fixed_coefficient_has_no_interval_and_is_named(family, rng):
    c = case(family, rng)
    m = c.make().fit(c.X, c.y, **c.extras, fixed=INFINITE_PENALTY)
    first = len(m.summary()) - 3
    whole = np.zeros(first + 5, bool)
    whole[first + 2] = True
    for wrong in ("x2", first + 2, -3, [first + 1, first + 2], whole):
        with pytest.raises(DataError, match=r"coefficient of 'x2' is fixed at -0\.1"):
            m.confint(wrong)
    with pytest.raises(DataError, match="'x2' is fixed"):
        m.inference.linear_hypothesis("x2")
    with pytest.raises(DataError, match="'x2' is fixed"):
        m.inference.profile(first + 2)


def test_masks_are_of_the_table_or_of_all_columns(rng):
    c = case("cox", rng)
    m = c.make().fit(c.X, c.y, fixed=INFINITE_PENALTY)
    assert list(m.confint([False, True, False]).index) == ["x3"]
    assert list(m.confint([False, False, False, True, False]).index) == ["x3"]
    with pytest.raises(DataError, match="mask of 4"):
        m.confint([True] * 4)


def test_equations_of_all_columns_take_the_fixed_ones_at_their_values(rng):
    c = case("logistic", rng)
    m = c.make().fit(c.X, c.y, fixed=INFINITE_PENALTY)
    whole = [[0.0, 1.0, 1.0, 0.0, 2.0, 0.0]]  # intercept, then x0 … x4
    table = [[0.0, 1.0, 2.0, 0.0]]  # intercept, x1, x3, x4
    for test in ("wald", "likelihood ratio", "score"):
        a = m.inference.linear_hypothesis(whole, 0.5, test=test)
        b = m.inference.linear_hypothesis(table, 0.2, test=test)
        np.testing.assert_allclose(a.chisq, b.chisq, rtol=1e-6)
    with pytest.raises(DataError, match="can be positions or a row"):
        m.inference.linear_hypothesis([0, 1, 2, 3, 4, 5])


@pytest.mark.parametrize("kind", ["score", "dfbeta"])
@pytest.mark.parametrize("family", ["logistic", "cox", "fine gray", "pooled", "case series"])
def test_residuals_by_position(family, kind, rng):
    c = case(family, rng)
    m = c.make().fit(c.X, c.y, **c.extras, fixed={0: 0.3})
    first = len(m.summary()) - 4
    pd.testing.assert_frame_equal(
        m.checks.residuals(kind, params=[first + 3]), m.checks.residuals(kind, params="x3")
    )


def survival(rng, n=150):
    """Two 0/1 columns and one with three values, of different effects."""
    X = np.column_stack([rng.integers(0, k, n) for k in (2, 2, 3)]).astype(float)
    time = rng.exponential(np.exp(-X @ [0.5, -0.7, 0.3]))
    return X, Surv(time, rng.random(n) < 0.8)


@pytest.mark.parametrize("storage", ["dense", "sparse", "frame"])
def test_groups_by_position_are_those_of_the_column(storage, rng):
    X, y = survival(rng)
    frame = in_storage(X, storage)
    m = CoxRegression().fit(frame, y, fixed={0: 0.4})
    other = CoxRegression().fit(X[:, 1:], y, offset=0.4 * X[:, 0])
    found = m.curves.standardized_survival(frame, [0.3, 0.9], by=1)
    expected = other.curves.standardized_survival(X[:, 1:], [0.3, 0.9], by=0, offset=0.4 * X[:, 0])
    for table in ("survival", "differences", "ratios", "restricted_means"):
        pd.testing.assert_frame_equal(getattr(found, table), getattr(expected, table))
    named = m.curves.standardized_survival(frame, [0.3, 0.9], by="x1").survival
    np.testing.assert_array_equal(named["survival"], found.survival["survival"])
    last = m.curves.standardized_survival(frame, [0.3, 0.9], by=-2).survival
    pd.testing.assert_frame_equal(last, found.survival)


def test_groups_of_a_column_whose_coefficient_is_fixed(rng):
    X, y = survival(rng)
    strata = np.arange(len(X)) % 2
    m = CoxRegression().fit(X, y, fixed={1: -0.6}, strata=strata)
    found = m.curves.standardized_survival(X, [0.3, 0.9], by=1, strata=strata)
    given = {v: np.column_stack([X[:, 0], np.full(len(X), v), X[:, 2]]) for v in (0, 1)}
    expected = m.curves.standardized_survival(X, [0.3, 0.9], by=given, strata=strata)
    for table in ("survival", "differences", "ratios", "restricted_mean_differences"):
        pd.testing.assert_frame_equal(getattr(found, table), getattr(expected, table))
    with pytest.raises(DataError, match="no coefficient 3"):
        m.curves.standardized_survival(X, [0.3], by=3, strata=strata)
    with pytest.raises(DataError, match="no coefficient 'age'"):
        m.curves.standardized_survival(X, [0.3], by="age", strata=strata)


def test_groups_by_position_where_effects_change_with_time(rng):
    X, y = survival(rng)
    m = CoxRegression(time_varying={0: [0.5]}).fit(X, y)
    found = m.curves.standardized_survival(X, [0.3, 0.9], by=1).survival
    given = {v: np.column_stack([X[:, 0], np.full(len(X), v), X[:, 2]]) for v in (0, 1)}
    expected = m.curves.standardized_survival(X, [0.3, 0.9], by=given).survival
    pd.testing.assert_frame_equal(found, expected)


def test_groups_of_a_formula_are_columns_of_the_data(rng):
    X, y = survival(rng)
    data = pd.DataFrame(X, columns=["sex", "drug", "dose"]).assign(time=y["time"], dead=y["event"])
    data = data[["dead", "drug", "time", "sex", "dose"]]
    m = CoxRegression.from_formula("Surv(time, dead) ~ sex + drug + dose", data, fixed={0: 0.4})
    by_place = m.curves.standardized_survival(data, [0.5], by=1).survival
    by_name = m.curves.standardized_survival(data, [0.5], by="drug").survival
    np.testing.assert_array_equal(by_place["survival"], by_name["survival"])
    assert m.coef_[0] == 0.4
    assert list(m.confint(1).index) == ["drug"]


@pytest.mark.parametrize("prior", [Laplace, Normal])
@pytest.mark.parametrize("exclude", [[3], [-2], "x3", [False, False, False, True, False]])
def test_exclusions_by_position_do_not_depend_on_which_are_fixed(prior, exclude, rng):
    c = case("logistic", rng)
    found = c.make(prior=prior(0.01, exclude=exclude)).fit(c.X, c.y, fixed=INFINITE_PENALTY)
    offset = c.X[:, 0] * 0.3 - c.X[:, 2] * 0.1
    expected = c.make(prior=prior(0.01, exclude=[1])).fit(c.X[:, [1, 3, 4]], c.y, offset=offset)
    np.testing.assert_allclose(found.coef_[[1, 3, 4]], expected.coef_, atol=1e-8)


def test_groups_of_a_prior_are_of_all_columns(rng):
    c = case("logistic", rng)
    found = LogisticRegression(prior=GroupLaplace(["a", "b", "a", "b", "a"], 0.02)).fit(
        c.X, c.y, fixed={1: 0.2}
    )
    rest = LogisticRegression(prior=GroupLaplace(["a", "a", "b", "a"], 0.02)).fit(
        np.delete(c.X, 1, axis=1), c.y, offset=0.2 * c.X[:, 1]
    )
    np.testing.assert_allclose(np.delete(found.coef_, 1), rest.coef_, atol=1e-7)


def test_true_is_no_position(rng):
    X, y = survival(rng)
    for given in ({True: 0.5}, {np.True_: 0.5}):
        with pytest.raises(DataError, match="takes names or positions"):
            CoxRegression().fit(X, y, fixed=given)
    with pytest.raises(DataError, match="time_varying takes names or positions"):
        CoxRegression(time_varying={True: [0.5]}).fit(X, y)


def test_a_picture_of_residuals_is_of_the_column_at_the_position(rng):
    X, y = survival(rng)
    m = CoxRegression().fit(X, y, fixed={0: 0.4})
    ax = plots.schoenfeld_residuals(m, 2)
    assert ax.get_ylabel() == "β(t) of x2"
