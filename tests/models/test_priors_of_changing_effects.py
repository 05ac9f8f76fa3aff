"""Priors by name and by place of columns with several coefficients: steps, changes in time."""

import numpy as np
import pandas as pd
import pytest

from steropes import (
    CoxRegression,
    CrossValidation,
    DataError,
    Laplace,
    Normal,
    PooledLogisticRegression,
    Surv,
)

V = 0.01


@pytest.fixture
def data(rng):
    X = pd.DataFrame(rng.integers(0, 2, (150, 3)) * 1.0, columns=["a", "b", "c"])
    return X, Surv(np.ceil(rng.exponential(4, 150)), rng.random(150) < 0.7)


def pooled(**settings):
    return PooledLogisticRegression(
        interval=2.0, baseline=1, time_varying={"a": 1}, n_jobs=1, **settings
    )


def cox(**settings):
    return CoxRegression(time_varying={"a": [3.0]}, n_jobs=1, **settings)


def test_a_position_from_the_end_is_of_a_column_of_x(data):
    """Of the columns of X, behind which the changes stand."""
    for make in (pooled, cox):
        last = make(prior=Laplace(V, exclude=[-1])).fit(*data)
        named = make(prior=Laplace(V, exclude=["c"])).fit(*data)
        np.testing.assert_array_equal(last.coef_, named.coef_)
        for position in (3, -4):
            with pytest.raises(DataError, match=f"exclude has position {position}, but X has 3"):
                make(prior=Laplace(V, exclude=[position])).fit(*data)


@pytest.mark.parametrize(("make", "one"), [(pooled, "a:t"), (cox, "a@(0,3]")])
def test_one_coefficient_of_a_column_is_excluded_beside_variances_by_name(make, one, data):
    by_name = Laplace({"a": V, "b": V, "c": V}, exclude=[one])
    found = make(prior=by_name).fit(*data).coef_
    np.testing.assert_array_equal(found, make(prior=Laplace(V, exclude=[one])).fit(*data).coef_)
    assert np.count_nonzero(found) > 0


@pytest.mark.parametrize(
    ("make", "excluded", "needs"), [(pooled, "a", "a:t"), (cox, "a@(0,3]", r"a@\(3,inf\)")]
)
def test_a_coefficient_that_is_penalised_needs_its_column_s_entry(make, excluded, needs, data):
    """No variance is made up for it."""
    prior = Normal({"b": V, "c": V}, exclude=[excluded])
    with pytest.raises(DataError, match=f"no entry for column 'a'.*exclude '{needs}'"):
        make(prior=prior).fit(*data)


def test_an_excluded_column_without_an_entry_has_no_part_in_the_overall_variance(data):
    cv = CrossValidation(3, search=[V], random_state=1)
    found = cox(prior=Normal({"b": V, "c": V}, exclude="a"), cv=cv).fit(*data)
    expected = cox(prior=Normal(V, exclude="a")).fit(*data)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-7)
