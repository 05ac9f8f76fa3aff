"""The docstrings of public names are complete, and their examples run."""

import doctest
import inspect
import warnings

import numpy as np
import pytest
from tests.docs.public_docstrings import MODULES, docstring, public_objects

import steropes
from every_family import EVERY, case

OBJECTS = public_objects()
EXAMPLES = {
    name: test
    for name, item in OBJECTS.items()
    if (
        test := doctest.DocTestParser().get_doctest(inspect.getdoc(item) or "", {}, name, name, 0)
    ).examples
}


@pytest.fixture(autouse=True)
def _matplotlib_without_a_screen(monkeypatch, tmp_path):
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    yield
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.close("all")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_shows(name):
    report = []
    runner = doctest.DocTestRunner(verbose=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner.run(EXAMPLES[name], out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


def test_every_class_and_function_has_an_example():
    without = {
        f"{module}.{name}"
        for module in MODULES
        for name in __import__(module, fromlist=["__all__"]).__all__
        if f"{module}.{name}" in OBJECTS and f"{module}.{name}" not in EXAMPLES
    }
    assert without == set()


@pytest.mark.parametrize("family", EVERY)
def test_fitted_attributes_are_documented(family):
    model = case(family, np.random.default_rng(0)).fit()
    described = {
        part.strip() for entry in docstring(type(model))["Attributes"]
        for part in entry.name.split(",")
    }  # fmt: skip
    fitted = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert fitted - described == set()


@pytest.mark.parametrize("family", EVERY)
def test_parameters_have_one_description_in_all_estimators(family):
    cls = case(family, np.random.default_rng(0)).model
    base = {entry.name: entry for entry in docstring(steropes.PenalizedModel)["Parameters"]}
    own = {entry.name: entry for entry in docstring(cls)["Parameters"]}
    for name in base:
        if own[name].type == base[name].type:
            assert own[name].desc[: len(base[name].desc)] == base[name].desc
