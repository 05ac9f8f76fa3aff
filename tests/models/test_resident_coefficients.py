"""Coefficients and gradients of replicates that stay on a device, against those of the CPU.

They stay there if there are many columns and replicates. Here all of them do, once with models that
are minimised on the device and once with models of the host, as those of few columns are.
"""

from __future__ import annotations

import numpy as np
import pytest

from every_family import EVERY, case
from steropes import CrossValidation, ElasticNet, Laplace, Normal
from steropes.solve.data_term import LocalTerm
from steropes.solve.proximal_newton import newton_batch as batch
from tuning import tune_solver

pytest.importorskip("torch")

pytestmark = pytest.mark.both_devices

PRIORS = {"lasso": Laplace(0.05), "ridge": Normal(0.5), "elastic net": ElasticNet(0.3, 0.5)}


@pytest.fixture(params=["models on the device", "models on the host"])
def resident(request, monkeypatch):
    """Keep the coefficients of all replicates on the device; returns whether each batch's are."""
    tune_solver(monkeypatch, "data", min_resident_numbers=1)
    columns = 1 if request.param == "models on the device" else 10**6
    tune_solver(monkeypatch, "subproblem", min_device_columns=columns)
    seen, step = [], batch.Batch._step

    def recorded(self, *arguments):
        kept = isinstance(self.term, LocalTerm) and self.term.resident
        seen.append(kept)
        assert kept is not isinstance(self.point.beta, np.ndarray)
        return step(self, *arguments)

    monkeypatch.setattr(batch.Batch, "_step", recorded)
    return seen


def close(got, wanted, tol):
    size = 1.0 + np.abs(np.asarray(wanted)[np.isfinite(wanted)]).max(initial=0.0)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=tol * size)


def fitted(name, device, *, X=None, **settings):
    own = case(name, np.random.default_rng(3), n=80, p=5)
    return own.fit(X, tol=1e-10, device=device, n_jobs=1, **settings)


@pytest.mark.parametrize(
    "prior", [Laplace(), pytest.param(Normal(), marks=pytest.mark.slow)], ids=["lasso", "ridge"]
)
@pytest.mark.parametrize("name", EVERY)
def test_folds_equal_those_of_the_cpu(resident, name, prior):
    cv = CrossValidation(3, search=[0.02, 0.2], random_state=0, tol=1e-9)
    cpu, other = (fitted(name, device, prior=prior, cv=cv) for device in ("cpu", "torch-cpu"))
    assert other.variance_ == cpu.variance_
    close(other.coef_, cpu.coef_, 1e-8)
    scores = [m.cv_results_.select_dtypes("number").to_numpy(float) for m in (cpu, other)]
    close(scores[1], scores[0], 1e-8)
    assert any(resident) is (name != "cumulative")


@pytest.mark.parametrize(
    "prior", ["lasso", *(pytest.param(p, marks=pytest.mark.slow) for p in list(PRIORS)[1:])]
)
@pytest.mark.parametrize("name", EVERY)
def test_draws_equal_those_of_the_cpu(resident, name, prior):
    models = [fitted(name, device, prior=PRIORS[prior]) for device in ("cpu", "torch-cpu")]
    draws = [m.inference.bootstrap(3, random_state=1).coef for m in models]
    close(draws[1], draws[0], 1e-4)  # Their tolerance is that of draws, not of the fit.
    assert any(resident) is (name != "cumulative")
