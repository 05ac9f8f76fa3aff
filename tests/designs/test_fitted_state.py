"""What every step of a comparison has in common: a fit is published whole, and can be stored."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from steropes import DataError
from steropes.designs import EntropyBalancing, Matching, PropensityWeights, balance_table

STEPS = [EntropyBalancing(tolerance=0.1), Matching(exact=["race"]), PropensityWeights(trim=0.05)]


@pytest.fixture(params=STEPS, ids=lambda step: type(step).__name__)
def fitted(request, lalonde, lalonde_covariates):
    return clone(request.param).fit(lalonde_covariates, lalonde.treat)


def test_an_error_leaves_the_previous_fit_intact(fitted, lalonde, lalonde_covariates):
    before, weights = set(vars(fitted)), fitted.weights_
    with pytest.raises(DataError):
        fitted.fit(lalonde_covariates, lalonde.treat * 0)
    assert set(vars(fitted)) == before
    assert fitted.weights_ is weights


def test_a_stored_fit_has_the_same_weights(fitted):
    other = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(other.weights_, fitted.weights_)
    assert other.get_params() == fitted.get_params()


def test_no_person_is_in_a_representation(fitted):
    assert "\n" not in repr(fitted)
    assert len(repr(fitted)) < 80


def test_weights_do_not_depend_on_the_table_s_kind_or_the_labels_names(
    fitted, lalonde, lalonde_covariates
):
    pl = pytest.importorskip("polars")
    other = clone(fitted).fit(pl.from_pandas(lalonde_covariates), lalonde.treat.tolist())
    np.testing.assert_array_equal(other.weights_, fitted.weights_)
    renamed = lalonde_covariates.replace({"race": {"black": "z", "hispan": "y", "white": "x"}})
    other = clone(fitted).fit(renamed, lalonde.treat)
    np.testing.assert_allclose(other.weights_, fitted.weights_, rtol=1e-6)


def test_the_balance_is_that_of_the_fit_whatever_changes_before_it_is_asked_for(
    fitted, lalonde, lalonde_covariates
):
    own = lalonde_covariates.copy()
    expected = balance_table(own, lalonde.treat, fitted.weights_, estimand=fitted.estimand)
    other = clone(fitted).fit(own, lalonde.treat)
    own.loc[:, "age"] = 0.0
    other.weights_[:] = 1.0
    stored = pickle.loads(pickle.dumps(other))
    for each in (other, stored):
        pd.testing.assert_frame_equal(each.balance_, expected)
    with pytest.raises(AttributeError, match="before fit"):
        _ = clone(fitted).balance_
