"""Input that no model can be fitted to is refused, with the column or row by name."""

import numpy as np
import pandas as pd
import pytest

from steropes import DataError, SeparationError
from steropes.models.cumulative import Censored, CumulativeProbabilityModel, EqualQuantileBins

Model = CumulativeProbabilityModel


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda X, y: (X, np.ones(len(y))), "every outcome is 1"),
        (lambda X, y: (X, np.where(np.arange(len(y)) == 3, np.nan, y)), "row 3"),
        (lambda X, y: (X[:1], y[:1]), "One row"),
        (lambda X, y: (X, y[:-1]), "rows"),
        (lambda X, y: (np.where(X[5, 0] == X, np.inf, X), y), "row 5"),
    ],
)
def test_data_that_cannot_be_used(change, what, data):
    with pytest.raises(DataError, match=what):
        Model().fit(*change(*data))


@pytest.mark.parametrize("kw", [{"exposure": 1}, {"strata": 1}])
def test_what_the_model_does_not_have(kw, data):
    X, y = data
    with pytest.raises(DataError):
        Model().fit(X, y, **{k: np.ones(len(y)) for k in kw})


@pytest.mark.parametrize(
    "kw",
    [{"link": "log"}, {"solver": "ccd"}, {"device": "cuda"}, {"reduce": "bins"}, {"tol": 0}],
)
def test_settings(kw, data):
    with pytest.raises(DataError):
        Model(**kw).fit(*data)


def test_reduction_of_censored_outcomes(data):
    X, y = data
    with pytest.raises(DataError, match="uncensored"):
        Model(reduce=EqualQuantileBins(5)).fit(X, Censored(y - 1, y))


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog"])
def test_outcome_ordered_by_a_column(link, data):
    X, _ = data
    with pytest.raises(SeparationError) as caught:
        Model(link=link).fit(pd.DataFrame(X, columns=["a", "b", "c"]), np.round(X[:, 0], 1))
    assert caught.value.columns[0] == "a"


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog"])
def test_column_that_has_only_the_highest_outcome(link, data):
    X, y = data
    X = np.column_stack([X, y == y.max()])
    with pytest.raises(SeparationError, match="x3"):
        Model(link=link).fit(X, y)


def test_constant_and_collinear_columns(data):
    X, y = data
    with pytest.raises(SeparationError, match=r"'x3'.*constant"):
        Model().fit(np.column_stack([X, np.full(len(y), 3.7)]), y)
    with pytest.raises(SeparationError, match="'x3' can be written"):
        Model().fit(np.column_stack([X, X[:, 0] - 2 * X[:, 2]]), y)


def test_constant_only_where_rows_have_weight(data):
    X, y = data
    w = np.where(X[:, 1] == 1, 1.0, 0.0)
    with pytest.raises(SeparationError, match="x1"):
        Model().fit(X, y, sample_weight=w)


def test_cauchit_column_of_one_row_in_the_tail_is_separated_not_constant(data):
    X, y = data
    X = np.column_stack([X, np.arange(len(y)) == np.argmax(y)])
    y = y + np.where(X[:, 3] == 1, 1e3, 0.0)
    with pytest.raises(SeparationError, match="no finite maximum"):
        Model(link="cauchit").fit(X, y)


def test_strong_but_not_separating_effects_are_fitted():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 1))
    m = Model().fit(x, 30 * x[:, 0] + rng.logistic(size=400))
    assert m.converged_
    assert m.coef_[0] == pytest.approx(30, rel=0.15)
