"""Probabilities and labels of the categories of ordinal outcomes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from sklearn.base import clone
from statsmodels.miscmodels.ordinal_model import OrderedModel

from steropes import Censored, CumulativeProbabilityModel, DataError, EqualQuantileBins, Laplace
from steropes.infer.cumulative_probability_predictions import category_probabilities
from steropes.likelihoods.cumulative import CODES

LABELS = ["none", "mild", "severe", "fatal"]
DISTRIBUTIONS = {
    "logit": stats.logistic,
    "probit": stats.norm,
    "loglog": stats.gumbel_r,
    "cloglog": stats.gumbel_l,
    "cauchit": stats.cauchy,
}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(150, 2))
    place = np.clip(np.round(1.5 + X[:, 0] + rng.logistic(size=150) / 2), 0, 3).astype(int)
    return X, place


def grades(place, labels=LABELS):
    return pd.Categorical.from_codes(place, labels, ordered=True)


@pytest.mark.parametrize("link", CODES)
def test_probabilities_are_differences_of_the_distribution(link, data):
    X, place = data
    model = CumulativeProbabilityModel(link=link).fit(X, grades(place))
    p = model.predict_proba(X)
    assert p.shape == (150, 4)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    assert (p >= 0).all()
    differences = np.diff(model.predict_cdf(X, LABELS), axis=1, prepend=0.0)
    np.testing.assert_allclose(p, differences, atol=1e-15)
    offset = np.linspace(-1, 1, 150)
    cdf = model.predict_cdf(X, LABELS, offset=offset)
    np.testing.assert_allclose(
        model.predict_proba(X, offset), np.diff(cdf, axis=1, prepend=0.0), atol=1e-15
    )


@pytest.mark.parametrize("link", CODES)
def test_small_probabilities_in_both_tails_have_all_digits(link):
    F = DISTRIBUTIONS[link]
    alpha, eta = np.array([-1.0, 0.5, 2.0]), np.array([-25.0, -4.0, 0.0, 3.0, 25.0])
    p = category_probabilities(link, alpha, eta)
    ends = np.concatenate([[-np.inf], alpha, [np.inf]])
    for i, shift in enumerate(eta):
        a, b = ends[1:] - shift, ends[:-1] - shift
        expected = np.where(F.cdf(b) > 0.5, F.sf(b) - F.sf(a), F.cdf(a) - F.cdf(b))
        np.testing.assert_allclose(p[i], expected, rtol=1e-9)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_probabilities_equal_those_of_statsmodels(link, data):
    X, place = data
    theirs = OrderedModel(place, X, distr=link).fit(method="bfgs", disp=False, gtol=1e-9)
    model = CumulativeProbabilityModel(link=link).fit(X, grades(place))
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict(X), atol=1e-6)


def test_every_form_of_the_outcome_has_the_same_probabilities(data):
    X, place = data
    expected = CumulativeProbabilityModel().fit(X, grades(place)).predict_proba(X)
    named = np.array(LABELS)[place].tolist()
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=grades(place))
    forms = {
        "ascending": CumulativeProbabilityModel().fit(X, grades(place, [0.5, 1.5, 2.25, 7.0])),
        "enum": CumulativeProbabilityModel().fit(X, pl.Series(named, dtype=pl.Enum(LABELS))),
    }
    for name, model in forms.items():
        np.testing.assert_array_equal(model.predict_proba(X), expected, err_msg=name)
    of_formula = CumulativeProbabilityModel.from_formula("y ~ a + b", table)
    np.testing.assert_allclose(of_formula.predict_proba(table), expected, rtol=1e-12)
    lasso = CumulativeProbabilityModel(prior=Laplace(0.1)).fit(X, grades(place))
    np.testing.assert_allclose(lasso.predict_proba(X).sum(axis=1), 1.0, rtol=1e-14)


def test_categories_that_no_row_has_have_probability_zero(data):
    X, place = data
    labels = ["none", "absent", "mild", "severe", "fatal", "more"]
    model = CumulativeProbabilityModel().fit(X, grades(np.array([0, 2, 3, 4])[place], labels))
    p = model.predict_proba(X)
    expected = CumulativeProbabilityModel().fit(X, grades(place)).predict_proba(X)
    assert model.categories_ == labels
    np.testing.assert_array_equal(p[:, [0, 2, 3, 4]], expected)
    assert not p[:, [1, 5]].any()


def test_other_outcomes_have_no_probabilities_of_categories(data):
    X, place = data
    numbers = CumulativeProbabilityModel().fit(X, place)
    seen = np.where(place > 0, place, -np.inf)
    censored = CumulativeProbabilityModel().fit(X, Censored(seen, np.maximum(place, 0.5)))
    merged = CumulativeProbabilityModel(reduce=EqualQuantileBins(2)).fit(X, grades(place))
    for model, reason in (
        (numbers, "y is numbers"), (censored, "y is censored"), (merged, "merged outcomes"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=f"{reason}; use predict_cdf"):
            model.predict_proba(X)
        assert not hasattr(model, "predict_proba")
        assert not hasattr(clone(model), "predict_proba")  # it is not fitted


def test_tables_and_figures_of_thresholds_name_the_categories(data):
    X, place = data
    model = CumulativeProbabilityModel().fit(X, grades(place))
    table = model.alpha_summary()
    assert table.index.tolist() == LABELS[:-1]
    assert table.index.name == "y"
    np.testing.assert_array_equal(table["alpha"], model.alpha_)
    numbers = CumulativeProbabilityModel().fit(X, place)
    assert numbers.alpha_summary().index.tolist() == [0.0, 1.0, 2.0]
    found = model.checks.parallelism(X, grades(place), quantiles=(0.2, 0.6))
    expected = numbers.checks.parallelism(X, place, quantiles=(0.2, 0.6)).coefficients
    cuts = [LABELS[int(k)] for k in expected.index]
    assert found.coefficients.index.tolist() == found.se.index.tolist() == cuts
    ax = model.checks.plot_alpha()
    assert [label.get_text() for label in ax.get_xticklabels()] == LABELS[:-1]
    with pytest.raises(DataError, match="categories, which have no scale"):
        model.checks.plot_alpha(scale="log")
