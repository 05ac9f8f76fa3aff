"""What a cross-validation chooses depends on the data, not on how they are stored or measured."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from every_family import EVERY, case
from steropes import CrossValidation, ElasticNet, Laplace, LogisticRegression, Normal, as_design
from tuning import tune_solver

FORMS = {
    "array": lambda X: X,
    "float32 frame": lambda X: pd.DataFrame(X).astype(np.float32).rename(columns=str),
    "sparse": sparse.csc_array,
    "design": as_design,
}


def rare(rng, n=250, p=6, share=0.05):
    """Indicators of few rows, in which a column's root mean square is far from one."""
    X = (rng.random((n, p)) < share).astype(float)
    X[:10, :] = np.eye(10, p)
    return X


# Families whose paths begin in ways of their own: with an intercept, without, and with nuisances.
FEW = ("logistic", "cox strata", "pooled change", "cumulative")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("family", "prior"),
    [
        *((family, Laplace()) for family in EVERY),
        *product(FEW, (Normal(), ElasticNet(1.0, 1.0))),
    ],
    ids=str,
)
def test_the_chosen_variance_does_not_depend_on_storage(family, prior, rng):
    c = case(family, rng, X=rare(rng))
    cv = CrossValidation(3, random_state=0)
    tables, chosen = [], []
    for name in ("array", "float32 frame", "sparse") if family in FEW else ("array", "sparse"):
        m = c.fit(FORMS[name](c.X), prior=prior, cv=cv)
        tables.append(m.cv_results_)
        chosen.append(m.variance_)
    first = [t["variance"].iloc[0] for t in tables]
    np.testing.assert_allclose(first, first[0], rtol=0.011)
    np.testing.assert_allclose(chosen, chosen[0], rtol=0.05)


# The others, whose paths begin as those of one of these, are slow; the test above has all.
@pytest.mark.parametrize(
    ("family", "prior"),
    [
        *product(FEW, (Laplace, Normal)),
        *(pytest.param(f, Laplace, marks=pytest.mark.slow) for f in EVERY if f not in FEW),
    ],
)
def test_the_chosen_variance_follows_the_unit_of_the_columns(family, prior, rng):
    """X times c with a variance of 1 / c² is the same model, column by column."""
    c = case(family, rng, n=300, p=4)
    cv = CrossValidation(3, random_state=0)
    unit = np.array([1.0, 1000.0, 1e-3, 16.0])
    one = c.fit(prior=prior([1.0] * 4), cv=cv)
    for form in (np.asarray, sparse.csc_array):
        m = c.fit(form(c.X * unit), prior=prior(unit**-2.0), cv=cv)
        np.testing.assert_allclose(of_first_column(m, "first"), of_first_column(one, "first"), 0.02)
        np.testing.assert_allclose(of_first_column(m), of_first_column(one), rtol=0.05)


def of_first_column(m, which="chosen"):
    """The variance of the column whose unit stayed, where the path begins or at its best."""
    v = m.cv_results_["variance"].iloc[0] if which == "first" else m.variance_
    return np.asarray(m.prior_.with_variance(v).variance)[0]


def test_a_frame_of_rare_indicators_keeps_its_coefficients(rng):
    X = (rng.random((2000, 40)) < 0.02).astype(float)
    eta = -1.5 + X[:, :10].sum(axis=1)
    y = rng.random(2000) < 1 / (1 + np.exp(-eta))
    cv = CrossValidation(5, random_state=0)
    fits = [LogisticRegression(prior=Laplace(), cv=cv).fit(form(X), y) for form in FORMS.values()]
    assert all(np.count_nonzero(m.coef_) >= 5 for m in fits)
    np.testing.assert_allclose([m.variance_ for m in fits], fits[0].variance_, rtol=0.05)


def test_a_constant_column_has_no_part_in_where_a_ridge_path_begins(rng):
    """Risk sets take all of it, in dense columns exactly and in sparse ones up to rounding."""
    c = case("cox", rng, n=120, p=4)
    c.X[:, 1] = 1.0
    cv = CrossValidation(3, random_state=0)
    first = [
        c.fit(form(c.X), prior=Normal(), cv=cv).cv_results_["variance"].iloc[0]
        for form in FORMS.values()
    ]
    np.testing.assert_allclose(first, first[0], rtol=1e-12)


def test_a_ridge_path_without_a_matrix_begins_alike_in_every_storage(rng, monkeypatch):
    """The intercept is eliminated even if there are too many columns for a matrix."""
    tune_solver(monkeypatch, "hessian", min_wide_columns=2, max_matrix_columns=2)
    c = case("poisson", rng, n=120, p=4, X=rare(rng, 120, 4, share=0.4))
    first = [
        c.fit(form(c.X), prior=Normal(), cv=CrossValidation(3, random_state=0))
        .cv_results_["variance"]
        .iloc[0]
        for form in FORMS.values()
    ]
    np.testing.assert_allclose(first, first[0], rtol=1e-12)


def test_where_only_a_constant_column_has_a_penalty_rounding_begins_no_path(rng):
    c = case("cox", rng, n=120, p=2)
    c.X[:, 1] = 1.0
    cv = CrossValidation(3, random_state=0)
    prior = Laplace(exclude=[0])
    fits = [c.fit(form(c.X), prior=prior, cv=cv) for form in FORMS.values()]
    assert {m.variance_ for m in fits} == {1.0}
    assert {m.coef_[1] for m in fits} == {0.0}


def test_what_a_fit_leaves_of_a_duplicate_begins_no_path(rng):
    """The column that it duplicates has no penalty, and takes all that it could tell."""
    c = case("poisson", rng, n=120, p=2)
    c.X[:, 0] = c.X[:, 1] / 3.0
    cv = CrossValidation(3, random_state=0)
    fits = [c.fit(form(c.X), prior=Laplace(exclude=[1]), cv=cv) for form in FORMS.values()]
    assert {m.variance_ for m in fits} == {1.0}
