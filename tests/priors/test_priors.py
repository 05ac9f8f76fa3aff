"""What each prior costs, what it leaves alone, and how it changes with its variance."""

import numpy as np
import pytest
from scipy import stats

from every_family import case
from steropes import DataError, ElasticNet, Laplace, Normal, glmnet_lambda, variance_from_glmnet

NAMES = ["a", "b", "c"]


@pytest.mark.parametrize("variance", [0.01, 1.0, 30.0])
def test_the_penalty_is_minus_the_log_density(variance):
    beta = np.array([0.3, -1.2, 0.0])
    laplace = stats.laplace(scale=np.sqrt(variance / 2))  # variance 2 b²
    normal = stats.norm(scale=np.sqrt(variance))
    for prior, density in ((Laplace(variance), laplace), (Normal(variance), normal)):
        value = prior.penalty(NAMES).value(beta)
        assert density.var() == pytest.approx(variance)
        assert value == pytest.approx(np.sum(density.logpdf(0) - density.logpdf(beta)))


def test_an_elastic_net_is_the_sum_of_its_parts():
    part = ElasticNet([1.0, 2.0, 3.0], 0.5).penalty(NAMES)
    np.testing.assert_array_equal(part.l1, Laplace([1.0, 2.0, 3.0]).penalty(NAMES).l1)
    np.testing.assert_array_equal(part.l2, Normal(0.5).penalty(NAMES).l2)


@pytest.mark.parametrize(
    "exclude", [["b"], [1], [-2], "b", ["b", 1], 1, np.array([1]), np.array([False, True, False])]
)
def test_excluded_columns_by_name_or_position_are_free(exclude):
    part = ElasticNet(1.0, 1.0, exclude=exclude).penalty(NAMES)
    np.testing.assert_array_equal(part.l1 == 0, [False, True, False])
    np.testing.assert_array_equal(part.l2 == 0, [False, True, False])


def test_another_variance_keeps_the_ratios_of_the_columns():
    old = Laplace([1.0, 4.0, 16.0], exclude=["a"])
    new = old.with_variance(1.0)
    np.testing.assert_allclose(np.divide(new.variance, old.variance), 0.25)  # geometric mean 4
    assert new.exclude == ["a"]
    np.testing.assert_array_equal(old.variance, [1.0, 4.0, 16.0])


def test_an_elastic_net_keeps_the_ratio_of_its_penalties():
    old = ElasticNet(1.0, 2.0)
    new = old.with_variance(0.01)
    a, b = old.penalty(NAMES), new.penalty(NAMES)
    np.testing.assert_allclose(b.l1 / a.l1, 10.0)
    np.testing.assert_allclose(b.l2 / a.l2, 10.0)


def test_glmnet_lambda_is_per_observation():
    assert glmnet_lambda(2.0, 100) == pytest.approx(0.01)
    assert variance_from_glmnet(0.01, 100) == pytest.approx(2.0)
    np.testing.assert_array_equal(variance_from_glmnet([0.0, 0.1], 10), [np.inf, 2.0])
    for call in (
        lambda: glmnet_lambda([1.0, -1.0], 100),
        lambda: glmnet_lambda(0.0, 100),
        lambda: glmnet_lambda(1.0, 0),
        lambda: variance_from_glmnet(-0.1, 100),
        lambda: variance_from_glmnet(np.nan, 100),
    ):
        with pytest.raises(DataError, match=r"variance must be|lambda_ must|n must be"):
            call()


@pytest.mark.parametrize("variance", [0.0, -1.0, np.nan, [1.0, 2.0, 0.0]])
def test_variances_must_be_positive(variance):
    with pytest.raises(DataError, match="must be positive"):
        Laplace(variance).penalty(NAMES)


@pytest.mark.parametrize(
    ("exclude", "message"),
    [([1.7], "not 1.7"), ([True, False], "mask of 2 columns"), ([True, "b"], "not True")],
)
def test_what_excludes_no_column_is_refused(exclude, message):
    with pytest.raises(DataError, match=message):
        Laplace(1.0, exclude=exclude).penalty(NAMES)


def test_a_variance_that_is_no_number_is_refused():
    with pytest.raises(DataError, match="must be a number, not 'a'"):
        Laplace("a").penalty(NAMES)


def test_variances_by_name_are_those_of_the_columns():
    by_name = Laplace({"c": 4.0, "a": 1.0}, exclude=["b"])
    np.testing.assert_array_equal(
        by_name.penalty(NAMES).l1, Laplace([1.0, 9.0, 4.0], exclude=[1]).penalty(NAMES).l1
    )
    half = by_name.with_variance(1.0).variance  # the geometric mean was 2
    assert half == {"c": pytest.approx(2.0), "a": pytest.approx(0.5)}
    with pytest.raises(DataError, match="no entry for column 'b'"):
        Normal({"a": 1.0, "c": 1.0}).penalty(NAMES)
    with pytest.raises(DataError, match="names 'z'"):
        Normal({"a": 1.0, "b": 1.0, "c": 1.0, "z": 1.0}).penalty(NAMES)


def test_variances_by_name_follow_a_column_into_its_steps():
    own = case("cox by step", np.random.default_rng(1))
    each = {f"x{j}": 0.1 * (j + 1) for j in range(5)}
    a = own.fit(prior=Normal(each))
    b = own.fit(prior=Normal(list(each.values())))
    np.testing.assert_array_equal(a.coef_, b.coef_)
