"""Attributes that a fitted model may lack are missing attributes, whoever asks."""

import inspect
import pickle

import numpy as np
import pytest

from every_family import EVERY, case
from steropes import (
    CumulativeProbabilityModel,
    DataError,
    DivideAndCombine,
    Laplace,
    LogisticRegression,
)
from steropes.models.estimators import penalized_model as base


def members(model):
    """Names of all attributes; an attribute that raises anything but AttributeError fails."""
    dir(model)
    return {name for name, _ in inspect.getmembers(model)}


@pytest.mark.parametrize("family", EVERY)
def test_every_model_can_be_inspected(family, rng):
    c = case(family, rng)
    members(c.make())
    fitted = c.fit()
    assert "coef_" in members(fitted)
    without_data = members(pickle.loads(pickle.dumps(fitted)))
    assert "coef_" in without_data
    assert "null_log_likelihood_" not in without_data


def test_a_combined_model_lacks_what_its_parts_cannot_say(rng):
    X, y = rng.normal(size=(300, 2)), rng.normal(size=300)
    model = CumulativeProbabilityModel(reduce=DivideAndCombine(3)).fit(X, y)
    assert "coef_" in members(model)
    assert not hasattr(model, "bic_")
    with pytest.raises(DataError):
        model.bic_  # noqa: B018


def test_listing_attributes_fits_no_null_model(rng, monkeypatch):
    model = LogisticRegression(prior=Laplace()).fit(rng.normal(size=(30, 1)), np.arange(30) % 2)
    monkeypatch.setattr(base, "null_fit", lambda model: pytest.fail("a fit"))
    assert "null_log_likelihood_" in dir(model)
