"""Every family on PyTorch's CPU device, whose lines are those of a GPU, against the CPU backend.

With ``pytest --device cuda`` the GPU takes the place of PyTorch's CPU device.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from every_family import EVERY, case
from steropes import (
    CrossValidation,
    Laplace,
    LogisticRegression,
    Normal,
    ShardedDesign,
    fit_many,
)
from steropes.solve.linear_predictor import bound_weights, linear_predictor
from steropes.solve.optimality.optimality_certificate import violations

pytest.importorskip("torch")

pytestmark = pytest.mark.both_devices

DEVICES = ("cpu", "torch-cpu")
FAMILIES = (*EVERY, "multinomial")


def close(got, wanted, tol=1e-9):
    """Assert that numbers agree up to ``tol`` times their size."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    size = 1.0 + np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tol * size)


def numbers(table: pd.DataFrame):
    return table.select_dtypes("number").to_numpy(np.float64)


def family_case(name, n=60):
    return case(name, np.random.default_rng(3), n=n, p=4)


@cache
def pair(name: str, penalty: str):
    """One model for each device; fitted once for all tests of a family."""
    prior = {"none": None, "ridge": Normal(0.5), "lasso": Laplace(0.05)}[penalty]
    own = family_case(name)
    return [own.fit(prior=prior, tol=1e-10, device=device, n_jobs=1) for device in DEVICES]


def on_torch(problem) -> bool:
    """Whether products with X are PyTorch's: the likelihood's, or those of the design itself."""
    X = getattr(problem.design, "X", problem.design)
    return getattr(X, "device", problem.likelihood.backend).name == "torch"


def certificate(m, problem) -> float:
    """The largest violation of the optimality conditions, from X on the host in 64 bits."""
    design, likelihood = problem.design, problem.likelihood
    eta, weights = linear_predictor(problem, m._beta * design.scale), bound_weights(problem)
    _, r = likelihood.evaluate(eta, weights)
    if likelihood.order is not None:
        whole = np.zeros((design.n, 1))
        whole[likelihood.order] = r
        r = whole
    g = design.rmatmul(np.ascontiguousarray(r), likelihood.backend)[:, 0] * design.scale
    return float(violations(g, m._beta, *problem.penalties(m.prior_)).max())


@pytest.mark.sampled
@pytest.mark.parametrize("penalty", ["ridge", "lasso"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_fit_equals_that_of_the_cpu(name, penalty):
    cpu, other = pair(name, penalty)
    assert on_torch(other._problem)
    assert not on_torch(cpu._problem)
    close(other.coef_, cpu.coef_)
    np.testing.assert_array_equal(np.asarray(other.coef_) == 0, np.asarray(cpu.coef_) == 0)
    close(other.log_likelihood_, cpu.log_likelihood_)
    assert other.converged_
    assert certificate(other, cpu._problem) < 1e-6


@pytest.mark.sampled
@pytest.mark.parametrize("name", FAMILIES)
def test_folds_choose_the_variance_of_the_cpu(name):
    own = family_case(name)
    cv = CrossValidation(2, search=[0.02, 0.2], random_state=0, tol=1e-9)
    cpu, other = (
        own.fit(sparse.csc_array(own.X), prior=Laplace(), cv=cv, tol=1e-10, device=device, n_jobs=1)
        for device in DEVICES
    )
    assert other.variance_ == cpu.variance_
    close(numbers(other.cv_results_), numbers(cpu.cv_results_))
    close(other.coef_, cpu.coef_)


@pytest.mark.sampled
@pytest.mark.parametrize("name", FAMILIES)
def test_bootstrap_draws_equal_those_of_the_cpu(name):
    cpu, other = (m.inference.bootstrap(3, random_state=1) for m in pair(name, "ridge"))
    close(other.coef, cpu.coef, 1e-7)


def test_draws_of_a_lasso_with_hundreds_of_columns_share_one_minimisation(monkeypatch):
    """The CPU minimises the model of each draw by itself."""
    from steropes.backends.pytorch.quadratic_minimiser import QuadraticMinimiser  # needs PyTorch

    own, calls = np.random.default_rng(4), []
    X = (own.random((700, 300)) < 0.1).astype(float)
    y = (own.random(700) < 1 / (1 + np.exp(1 - X[:, :5].sum(1)))).astype(int)
    minimise = QuadraticMinimiser.minimise
    monkeypatch.setattr(
        QuadraticMinimiser, "minimise",
        lambda self, *a, **k: calls.append(k["y"].shape[1]) or minimise(self, *a, **k),
    )  # fmt: skip
    draws = [
        LogisticRegression(prior=Laplace(0.05), tol=1e-8, device=device, n_jobs=1)
        .fit(X, y)
        .inference.bootstrap(4, random_state=1)
        for device in DEVICES
    ]
    close(draws[1].coef, draws[0].coef, 1e-4)
    assert max(calls) == 4


@pytest.mark.sampled
@pytest.mark.parametrize("name", FAMILIES)
def test_profile_intervals_equal_those_of_the_cpu(name):
    cpu, other = pair(name, "none")
    some = [cpu.summary().index[-1]]
    close(other.confint(some, method="profile"), cpu.confint(some, method="profile"), 1e-6)


@pytest.mark.parametrize("name", FAMILIES)
def test_robust_covariances_equal_those_of_the_cpu(name):
    cpu, other = pair(name, "none")
    close(other.vcov(), cpu.vcov())
    close(other.vcov("robust"), cpu.vcov("robust"))


CURVES = {
    "cox": lambda m, X: [
        m.curves.baseline_hazard(level=None),
        m.predict_survival(X, [1.0, 2.0]),
        m.curves.survival(X, [1.0, 2.0]),
    ],
    "fine": lambda m, X: [
        m.predict_cumulative_incidence(X, [1.0, 2.0]),
        m.curves.incidence(X, [1.0, 2.0]),
    ],
    "pooled": lambda m, X: [m.predict_survival(X, [1.0, 2.0])],
    "cumulative": lambda m, X: [m.predict_quantile(X, 0.5)],
}


@pytest.mark.parametrize("name", FAMILIES)
def test_residuals_and_curves_equal_those_of_the_cpu(name):
    models, X = pair(name, "none"), family_case(name).X[:5]
    if name == "cox strata":
        given = {"strata": ["a", "b", "c", "a", "b"]}
        tables = [
            [f(X, [1.0, 2.0], **given) for f in (m.predict_survival, m.curves.survival)]
            for m in models
        ]
    elif (curves := CURVES.get(name.split()[0])) is not None:
        tables = [curves(m, X) for m in models]
    elif name in ("logistic", "multinomial"):
        tables = [[m.predict_proba(X)] for m in models]
    else:
        tables = [[m.predict(X)] for m in models]
    if name != "cumulative":
        for own, m in zip(tables, models, strict=True):
            own.append(m.checks.residuals("score"))
    for a, b in zip(*tables, strict=True):
        if isinstance(a, pd.DataFrame):
            a, b = numbers(a), numbers(b)
        close(b, a)


BLOCKS = (
    "logistic",
    "cox",
    "cox by step",
    "fine gray",
    "conditional exact",
    "pooled",
    "cumulative",
)


@pytest.mark.sampled
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_rows_multiply_on_the_device(name):
    own, cuts = family_case(name), (0, 25, 60)
    models = []
    for device in DEVICES:
        X = ShardedDesign.from_blocks([own.X[a:b] for a, b in pairwise(cuts)])
        models.append(own.fit(X, prior=Normal(0.5), tol=1e-10, device=device, n_jobs=1))
        assert X.blocks.device == "cpu" or device == "torch-cpu"
    cpu, other = models
    close(other.coef_, cpu.coef_)
    close(other.vcov(), cpu.vcov())


@pytest.mark.sampled
@pytest.mark.parametrize("prior", [None, Laplace(0.05)], ids=str)
@pytest.mark.parametrize("name", ["linear", "logistic", "poisson", "cox", "conditional breslow"])
def test_many_outcomes_equal_those_of_the_cpu(name, prior):
    own = family_case(name)
    outcomes = {"a": own.y, "b": own.y[::-1].copy() if name != "cox" else own.y}
    cpu, other = (
        fit_many(
            own.make(prior=prior, tol=1e-10, device=device, n_jobs=1), own.X, outcomes, **own.extras
        )
        for device in DEVICES
    )
    close(numbers(other), numbers(cpu), 1e-8)
