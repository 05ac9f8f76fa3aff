"""Rooms know a backend by its face alone: one of a screenful gives the same answers."""

import numpy as np
import pytest
from dense_backend import DenseBackend
from kernel_cases import check, random_case

import steropes.models.fitting.fit_steps
from every_family import case
from steropes import Laplace
from steropes.backends import get_backend

FAMILIES = ["logistic", "poisson", "cox", "cox strata", "conditional efron",
            "case series"]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_every_operation_is_its_definition(seed):
    rng = np.random.default_rng(seed)
    own = random_case(seed, int(rng.integers(1, 40)), 9, rng.choice([0.0, 0.3, 1.0]), seed % 2 > 0,
                      seed % 3 > 0)  # fmt: skip
    check(DenseBackend(), own, 1 + seed)


@pytest.mark.parametrize("name", FAMILIES)
def test_models_end_at_the_same_optima(name, monkeypatch):
    own = case(name, np.random.default_rng(1), n=80)
    wanted = own.fit(prior=Laplace(0.05))
    asked = []

    def dense(device, n_jobs, work):
        asked.append(device)
        return DenseBackend() if len(asked) == 1 else get_backend(device, n_jobs, work)

    monkeypatch.setattr(steropes.models.fitting.fit_steps, "get_backend", dense)
    model = own.fit(prior=Laplace(0.05))
    assert type(model._problem.likelihood.backend) is DenseBackend
    np.testing.assert_allclose(model.coef_, wanted.coef_, atol=1e-6)
    np.testing.assert_array_equal(model.coef_ == 0, wanted.coef_ == 0)
    assert model.converged_
