"""Tables of coefficients: what is chosen, on which scale, by which distribution."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from every_family import EVERY, case
from steropes import CumulativeProbabilityModel, DataError, LinearRegression, LogisticRegression

COLUMNS = ["coef", "lower", "upper", "exp(coef)", "exp(lower)", "exp(upper)", "se", "z", "p"]


@pytest.mark.parametrize("family", EVERY)
def test_a_ratio_stands_beside_the_limits_of_the_ratio(family, rng):
    table = case(family, rng).fit().summary(0.9)
    if family == "linear":
        assert list(table) == ["coef", "lower", "upper", "se", "t", "p"]
        return
    columns = ["t" if name == "z" else name for name in COLUMNS] if family == "gamma" else COLUMNS
    assert list(table) == columns
    for name in ("coef", "lower", "upper"):
        np.testing.assert_allclose(table[f"exp({name})"], np.exp(table[name]))


@pytest.mark.parametrize("kind", ["model", "robust", "profile", "bootstrap"])
def test_every_kind_of_summary_has_the_same_columns(kind, rng):
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    assert list(LogisticRegression(random_state=1).fit(X, y).summary(kind=kind)) == COLUMNS


def test_linear_models_have_t_with_the_residual_degrees_of_freedom(rng):
    X = rng.normal(size=(14, 3))
    y = X @ [1.0, 0.0, -1.0] + rng.normal(size=14)
    m, ols = LinearRegression().fit(X, y), sm.OLS(y, sm.add_constant(X)).fit()
    table = m.summary(0.9)
    assert list(table) == ["coef", "lower", "upper", "se", "t", "p"]
    assert m.df_resid_ == ols.df_resid
    np.testing.assert_allclose(table["t"], ols.tvalues, rtol=1e-7)
    np.testing.assert_allclose(table["p"], ols.pvalues, rtol=1e-7)
    np.testing.assert_allclose(table[["lower", "upper"]], ols.conf_int(0.1), rtol=1e-7)
    np.testing.assert_allclose(m.confint(), ols.conf_int(), rtol=1e-7)


@pytest.mark.parametrize("link", ["logit", "probit", "loglog", "cloglog", "cauchit"])
def test_links_without_a_ratio_show_no_exponentials(link, rng):
    X, y = rng.normal(size=(60, 1)), rng.normal(size=60)
    table = CumulativeProbabilityModel(link=link).fit(X, y).summary()
    assert ("exp(coef)" in table) == (link in ("logit", "loglog", "cloglog"))


@pytest.mark.parametrize("family", EVERY)
def test_intervals_are_chosen_by_name_position_or_mask(family, rng):
    m = case(family, rng).fit()
    every = m.confint()
    k = len(every)
    mask = np.arange(k) % 2 == 1
    assert list(m.confint(mask).index) == list(every.index[mask])
    assert list(m.confint(mask.tolist()).index) == list(every.index[mask])
    assert list(m.confint(-1).index) == [every.index[-1]]
    assert list(m.confint([every.index[1], np.int64(0)]).index) == list(every.index[[1, 0]])
    for wrong in (99, -99, [0, 99], [True, False], True, 1.5, [0.0], "no such", [None], [[0]]):
        with pytest.raises(DataError):
            m.confint(wrong)
    for level in (0, 1, 95, "a", None, np.nan, True):
        with pytest.raises(DataError, match="level"):
            m.confint(level=level)
        with pytest.raises(DataError, match="level"):
            m.summary(level)


@pytest.mark.parametrize("family", EVERY)
def test_clusters_are_refused_by_their_own_name(family, rng):
    c = case(family, rng)
    m, n = c.fit(), len(c.X)
    for wrong, match in (
        (np.zeros(n), "two clusters"),
        (np.zeros(n - 1), f"cluster has {n - 1} entries, but X has {n} rows"),
        (np.where(np.arange(n) == 3, np.nan, 1.0), "cluster is missing in row 3"),
        ("person", "cluster"),
    ):
        with pytest.raises(DataError, match=match) as error:
            m.vcov("robust", cluster=wrong)
        assert "strat" not in str(error.value)
    label = np.arange(n) // 5
    se = np.sqrt(np.diag(m.vcov("robust", cluster=label)))
    np.testing.assert_allclose(m.summary(kind="robust", cluster=label)["se"], se)
    q = 1.959963984540054 if m._residual_df() is None else stats.t.ppf(0.975, m._residual_df())
    ends = m.confint(method="robust", cluster=label)
    np.testing.assert_allclose(ends["upper"] - ends["lower"], 2 * q * se)
    if family != "cumulative":
        with pytest.raises(DataError, match="cluster goes with"):
            m.vcov(cluster=label)


def test_two_clusters_must_count(rng):
    c = case("cox", rng)
    w = (np.arange(200) < 150).astype(float)
    m = c.make().fit(c.X, c.y, sample_weight=w)
    with pytest.raises(DataError, match="two clusters"):
        m.vcov("robust", cluster=(np.arange(200) < 150).astype(int))


def test_a_column_called_intercept_is_told_from_the_intercept(rng):
    import pandas as pd

    X = pd.DataFrame({"intercept": rng.normal(size=50), "b": rng.normal(size=50)})
    m = LogisticRegression().fit(X, rng.integers(0, 2, 50))
    assert len(m.confint([1])) == 1
    np.testing.assert_allclose(m.confint([1]), m.confint().iloc[[1]])
    for ask in (
        m.confint,
        m.inference.linear_hypothesis,
        lambda name: m.inference.profile(name, [0.0]),
    ):
        with pytest.raises(DataError, match="called 'intercept', at positions 0 and 1"):
            ask("intercept")
