"""HTML representations: every public class has one, and none shows an entry of a person."""

import html
import inspect
import re
from importlib import import_module

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.docs.public_docstrings import MODULES

import steropes
import steropes.datasets
import steropes.federated
import steropes.studies
from steropes.data.html_representations import FieldsInHtml, TextInHtml
from steropes.studies import StudySettings
from steropes.studies.cohorts import condition_cohorts, read_cohorts

PUBLIC = {
    f"{module}.{name}": getattr(import_module(module), name)
    for module in sorted({*MODULES} - {"steropes.models"})
    for name in import_module(module).__all__
}
CLASSES = {
    name: cls
    for name, cls in PUBLIC.items()
    if inspect.isclass(cls) and not issubclass(cls, Exception | tuple)
}
N = 60
RNG = np.random.default_rng(5)
# Numbers that would be recognised in a text.
X = pd.DataFrame(RNG.normal(size=(N, 2)) * 987.123, columns=["a", "b"])
TIME = np.sort(RNG.uniform(71234.5, 98765.4, N))
Y = steropes.Surv(TIME, RNG.integers(0, 2, N))
LABELS = [f"person-{k}" for k in range(N)]


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_class_has_an_html_representation(name):
    cls = CLASSES[name]
    assert hasattr(cls, "_repr_html_") or hasattr(cls, "_repr_mimebundle_")


def results():
    """Return public results that were made from the data above."""
    cox = steropes.CoxRegression().fit(X, Y)
    normal = steropes.Normal(exclude=["a"])
    return {
        "model": cox,
        "model with a prior": steropes.CoxRegression(prior=normal).fit(X, Y),
        "bootstrap": cox.inference.bootstrap(4, random_state=0),
        "curve": steropes.kaplan_meier(Y),
        "incidence": steropes.aalen_johansen(Y),
        "step function": cox.predict_survival_function(X)[3],
        "standardized": cox.curves.standardized_survival(X, [80000.0]),
        "assumptions": cox.checks.assumptions(),
        "prior": normal,
        "chooser": steropes.CrossValidation(groups=LABELS, stratify=LABELS),
        "criterion": steropes.InformationCriterion(),
        "design": steropes.as_design(X),
        "simulated": steropes.datasets.simulate_regression("poisson", n=N, p=3, seed=0),
        "balance": steropes.designs.covariate_balance(X, np.arange(N) % 2, np.ones(N)),
    }


RESULTS = results()


@pytest.mark.parametrize("name", RESULTS)
def test_no_number_or_label_of_a_person_is_shown(name):
    result = RESULTS[name]
    if hasattr(result, "_repr_html_"):
        page = result._repr_html_()
    else:
        page = result._repr_mimebundle_()["text/html"]
    assert len(re.sub("<[^>]+>", "", page)) > 10
    ends = (f"{TIME[0]:.6g}", f"{TIME[-1]:.6g}")  # the range of a curve
    values = {f"{x:.6g}" for x in (*X.to_numpy().ravel(), *TIME)} - set(ends)
    assert not any(value in page for value in values)
    assert not any(label in page for label in LABELS)
    for tag in ("p", "table", "tr", "td", "pre"):
        assert len(re.findall(rf"<{tag}[ >]", page)) == page.count(f"</{tag}>")


@pytest.fixture(scope="module")
def study_objects():
    db = steropes.studies.synthetic_database(1200)
    cohorts = read_cohorts(db) + condition_cohorts(db, {3: 192671})
    settings = StudySettings(target=1, comparator=2, outcome=3)
    comparison = steropes.studies.cohorts.compare_cohorts(db, cohorts, 1, 2)
    return {"database": db, "cohorts": cohorts, "settings": settings, "comparison": comparison}


@pytest.mark.parametrize("name", ["database", "cohorts", "settings", "comparison"])
def test_html_of_studies_has_the_text_of_their_representation(study_objects, name):
    result = study_objects[name]
    text = html.unescape(re.sub("<[^>]+>", "", result._repr_html_()))
    if isinstance(result, TextInHtml):
        assert text == repr(result)
    else:
        assert isinstance(result, FieldsInHtml)
        assert all(field in text for field in ("target", "comparator", "outcome"))


def test_names_are_escaped_and_long_values_are_described():
    prior = steropes.Laplace(0.1, exclude=["<script>"])
    assert "<script>" not in prior._repr_html_()
    assert "list of 500" in steropes.Laplace(0.1, exclude=list(range(500)))._repr_html_()
    assert "ndarray of 3" in steropes.Laplace(np.ones(3))._repr_html_()


def test_entries_of_people_are_not_shown_in_any_container():
    ids = [f"person {i}" for i in range(30)]
    containers = [
        ids, tuple(ids), frozenset(ids), dict.fromkeys(ids), pd.Series(ids), pd.Index(ids),
        pd.Categorical(ids), pd.array(ids, dtype="string"), pl.Series(ids), pa.array(ids),
        [np.array(ids)], {"ids": pd.Index(ids)}, (pa.array(ids),),
    ]  # fmt: skip
    for groups in containers:
        text = steropes.CrossValidation(groups=groups)._repr_html_()
        assert "person" not in text
        assert "of 30" in text
    text = html.unescape(steropes.Laplace({"a": 1.0}, exclude=("b",))._repr_html_())
    assert "{'a': 1.0}" in text
    assert "('b',)" in text
