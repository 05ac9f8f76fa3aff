"""What fitted models print: what was found, in words and in HTML, and nobody's row."""

import pickle

import numpy as np
import pandas as pd
import pytest

from every_family import EVERY, case
from steropes import CoxRegression, Hierarchical, Laplace, LogisticRegression, Normal, Surv


@pytest.mark.parametrize("name", EVERY)
def test_every_family_prints_what_it_found(name, rng):
    c = case(name, rng)
    m = c.make()
    assert str(m) == repr(m)
    m = c.fit()
    text, page = str(m), m._repr_mimebundle_()["text/html"]
    for words in (type(m).__name__, "Log-likelihood", "converged after", "Coefficients"):
        assert words in text
        assert words in page
    assert repr(m) == m._repr_mimebundle_()["text/plain"]
    first = f"{np.asarray(m._coefficients())[0]:.4g}"
    assert first in text
    assert first in page
    assert f"{len(c.y):,}" in text.replace("\n", " ")
    again = pickle.loads(pickle.dumps(m))
    assert "Log-likelihood" in str(again)


def test_names_are_escaped_and_many_coefficients_are_cut(rng):
    X = pd.DataFrame(rng.normal(size=(80, 40)), columns=[f"<b>{j}</b>" for j in range(40)])
    m = LogisticRegression(prior=Laplace(0.5)).fit(X, (rng.random(80) < 0.5) * 1)
    page, text = m._repr_html_(), str(m)
    assert "<b>" not in page
    assert "&lt;b&gt;" in page
    assert "more are in summary()" in text
    shown = [line for line in text.splitlines() if line.startswith(("<b>", "intercept"))]
    assert len(shown) in (20, 21)
    assert shown[0].startswith("intercept")
    largest = X.columns[np.abs(m.coef_).argmax()]
    assert any(line.startswith(largest) for line in shown)


@pytest.mark.parametrize("columns", [3, 250])
def test_models_and_tables_say_why_they_have_no_standard_errors(columns, rng):
    X = rng.normal(size=(80, columns))
    y = (X[:, 0] + rng.logistic(size=80) > 0) * 1
    m = LogisticRegression(prior=Laplace(0.1)).fit(X, y)
    for shown in (str(m), m._repr_html_(), str(pickle.loads(pickle.dumps(m)))):
        assert "there are no standard errors" in shown
        assert "summary(kind=" in shown
    assert "shrunken: no errors; see kind='profile'" in str(m.summary().head())
    limited = LogisticRegression(prior=Normal(lower=0)).fit(X, y)
    assert "With limits of coefficients there are no standard errors" in str(limited)
    assert "limits: no errors; see kind='profile'" in str(limited.summary().head())
    ridge = LogisticRegression(prior=Normal()).fit(X, y)
    assert "no errors" not in str(ridge.summary())
    assert "no standard errors" not in str(ridge)


def test_no_row_is_shown(rng):
    X = rng.normal(size=(60, 2)) * 1234.567
    y = Surv(np.linspace(7001.25, 9001.75, 60), rng.random(60) < 0.6)
    m = CoxRegression().fit(X, y, sample_weight=rng.integers(0, 3, 60))
    for text in (str(m), m._repr_html_()):
        for value in (*X[:, 0], *y["time"]):
            assert f"{value:.4f}"[:7] not in text
    assert "of 60 with a weight, weights add up to" in str(m)


def test_a_fit_that_did_not_converge_says_so(rng):
    X = rng.normal(size=(60, 3))
    with pytest.warns(Warning, match="stopped after"):
        m = LogisticRegression(max_iter=1, tol=1e-13).fit(X, (X[:, 0] + rng.normal(size=60) > 0))
    assert "NOT CONVERGED" in str(m)


def test_zeros_and_settings_of_every_column_are_not_written_out(rng):
    X = pd.DataFrame(rng.normal(size=(200, 40)), columns=[f"x{j}" for j in range(40)])
    y = (X["x3"] - X["x7"] + rng.logistic(size=200) > 0) * 1
    m = LogisticRegression(prior=Laplace(0.01)).fit(X, y)
    found = [name for name, b in zip(X.columns, m.coef_, strict=True) if b != 0]
    shown = [line.split()[0] for line in str(m).splitlines() if line.startswith("x")]
    assert 1 < len(found) < 20
    assert shown == found
    assert f"the other {40 - len(found)} are in summary()" in str(m)
    m = LogisticRegression(prior=Laplace(1e-9)).fit(X, y)
    assert "All coefficients are zero." in str(m)
    groups = [f"a class of drugs number {j % 5}" for j in range(40)]
    m = LogisticRegression(prior=Hierarchical(groups, 0.1, 0.1)).fit(X, y)
    assert "number 2', … 40 in all], variance=0.1" in str(m)


def test_standardised_survival_is_shown_by_tables(rng):
    X = pd.DataFrame({"drug": (rng.random(80) < 0.5) * 1.0, "age": rng.normal(size=80)})
    y = Surv(rng.exponential(size=80) + 0.01, rng.random(80) < 0.7)
    found = CoxRegression().fit(X, y).curves.standardized_survival(X, [0.2, 0.5], by="drug")
    for title in ("Survival", "Restricted means", "Risk ratios"):
        assert f"{title}\n" in repr(found)
        assert f"<b>{title}</b>" in found._repr_html_()
    assert f"{found.survival['survival'][0]:.6f}" in repr(found)
    alone = CoxRegression().fit(X, y).curves.standardized_survival(X, [0.2])
    assert "None" not in repr(alone)
    assert "ratios" not in repr(alone)


def test_a_logistic_model_names_the_class_whose_probability_it_models(rng):
    X, late = rng.normal(size=(60, 2)), rng.random(60) < 0.5
    pain = pd.Categorical(np.where(late, "mild", "<severe>"), ["mild", "<severe>"], ordered=True)
    m = LogisticRegression().fit(X, pain)
    assert "Outcome         '<severe>' rather than 'mild'" in str(m)
    assert "&lt;severe&gt;" in m._repr_html_()
    for zero_or_one in (late, late.astype(float)):
        assert "rather than" not in str(LogisticRegression().fit(X, zero_or_one))
