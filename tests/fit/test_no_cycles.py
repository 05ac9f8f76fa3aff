"""What a fit has held goes with it: nothing waits for Python to look for cycles.

Few objects hold many gigabytes here, and Python looks once there are many objects.
"""

from __future__ import annotations

import contextlib
import gc
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import steropes
from drawn_families import FAMILIES, drawn
from steropes.studies.federation import FederatedPlan, FederatedSite, OwnerRules, federate


def left_behind(do: Callable[[], Any]) -> list[str]:
    """Kinds of this library's objects that are there after a second run, and were not before."""
    do()  # what is kept for good
    gc.collect()
    gc.disable()
    try:
        before = {id(x) for x in gc.get_objects()}
        do()
        new = [x for x in gc.get_objects() if id(x) not in before]
        return sorted({type(x).__name__ for x in new if _ours(x)})
    finally:
        gc.enable()


def _ours(x: Any) -> bool:
    # An offer of work that was withdrawn holds nothing; it waits until a helper reads its queue.
    withdrawn = type(x).__name__ == "_Turn" and x.work is None
    return type(x).__module__.split(".")[0] == "steropes" and not withdrawn


def _fit(family: str, after: Callable[[Any], Any] | None = None, **options: Any) -> None:
    model, settings, X, y, more, _ = drawn(family, np.random.default_rng(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = model(**settings, **options).fit(sparse.csc_array(X), y, **more)
        if after is not None:
            after(m)


FOLDS = steropes.CrossValidation(3, random_state=1)
EVERY_FAMILY = [
    family if family in ("logistic", "cox") else pytest.param(family, marks=pytest.mark.slow)
    for family in FAMILIES
]


@pytest.mark.sampled
@pytest.mark.parametrize("family", EVERY_FAMILY)
@pytest.mark.parametrize(
    "options",
    [{}, {"prior": steropes.Laplace()}, {"prior": steropes.Laplace(), "cv": FOLDS}],
    ids=["free", "lasso", "folds"],
)
def test_of_a_fit(family: str, options: dict[str, Any]) -> None:
    assert left_behind(lambda: _fit(family, **options)) == []


@pytest.mark.sampled
@pytest.mark.parametrize("family", EVERY_FAMILY)
@pytest.mark.parametrize(
    "after",
    [
        lambda m: m.summary(),
        lambda m: m.confint(method="profile"),
        lambda m: m.inference.bootstrap(5, random_state=1),
    ],
    ids=["summary", "profiles", "bootstrap"],
)
def test_of_what_is_asked_of_a_fit(family: str, after: Callable[[Any], Any]) -> None:
    assert left_behind(lambda: _fit(family, after)) == []


@pytest.mark.parametrize("cv", [None, FOLDS], ids=["one", "folds"])
def test_of_a_cumulative_model(cv: steropes.CrossValidation | None) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(150, 3)), rng.normal(size=150)

    def fit() -> None:
        m = steropes.CumulativeProbabilityModel(prior=steropes.Laplace(), cv=cv)
        m.fit(X, y)
        m.predict_quantile(X, 0.5)

    assert left_behind(fit) == []


def test_of_many_outcomes() -> None:
    rng = np.random.default_rng(1)
    X = sparse.csc_array((rng.random((200, 5)) < 0.3).astype(float))
    outcomes = {k: (rng.random(200) < 0.3).astype(int) for k in "abc"}
    model = steropes.LogisticRegression(prior=steropes.Laplace(0.1))
    assert left_behind(lambda: steropes.fit_many(model, X, outcomes)) == []


@pytest.mark.sampled
@pytest.mark.parametrize("formula", ["y ~ zz", "zz ~ x", "y ~ x + offset(zz)", "y ~ np.log(none)"])
def test_of_a_formula_that_is_refused(formula: str) -> None:
    gc.collect()
    gc.disable()
    try:
        data = pd.DataFrame({"y": [0.0, 1.0, 3.0], "x": [1.0, 0.0, 2.0], "none": np.nan})
        kept = weakref.ref(data)
        with contextlib.suppress(steropes.DataError):
            steropes.LinearRegression.from_formula(formula, data)
        del data
        assert kept() is None
    finally:
        gc.enable()


def test_of_folds_over_sites() -> None:
    rng = np.random.default_rng(1)
    x = (rng.random(600) < 0.3).astype(float)
    rows = pd.DataFrame({"x": x, "z": rng.normal(size=600), "y": rng.integers(0, 2, 600)})
    tables = {"north": rows[:220], "south": rows[220:420], "west": rows[420:]}
    rules = OwnerRules(least=0)

    def fit() -> None:
        plan = FederatedPlan(
            model="logistic", columns=("x", "z"), sites=tuple(tables), outcome="y",
            prior="laplace", folds=3, seed=1, search=(0.01, 0.1),
        )  # fmt: skip
        federate(plan, {name: FederatedSite(name, table, rules) for name, table in tables.items()})
        for thread in threading.enumerate():  # which end by themselves, a moment later
            if thread.name == "steropes-lead":
                thread.join(30)

    assert left_behind(fit) == []
