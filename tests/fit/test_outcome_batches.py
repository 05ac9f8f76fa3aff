"""Outcomes side by side: their certificates from X, and the sample that their Hessian is of."""

import threading
import time

import numpy as np
import pytest
from scipy import sparse

from steropes import CoxRegression, Laplace, LogisticRegression, PoissonRegression, Surv, fit_many
from steropes.design_matrix import as_design
from steropes.fit import fits_of_many_outcomes as outcome_batches
from steropes.fit.fits_of_many_outcomes import MeanCurvature, systematic_sample
from steropes.likelihoods.outcomes_as_replicates_likelihood import MultiOutcomeLikelihood
from steropes.models.fitting.row_arguments import FitInputs
from steropes.solve.data_term import WorkingColumns
from steropes.solve.optimality.optimality_certificate import certificate
from tuning import tune

N = 400


def drawn(rng, family):
    """Sparse and dense columns, and nine outcomes with weights and offsets."""
    X = np.column_stack([rng.random((N, 30)) < 0.1, 1e3 * rng.normal(size=(N, 2))]).astype(float)
    given = {}
    for k in range(9):
        eta = X[:, 3 * k : 3 * k + 3] @ [1.0, -1.0, 0.5] - 1.0
        if family is CoxRegression:
            time = np.ceil(9 * rng.exponential(np.exp(-eta)))
            y = Surv(np.minimum(time, 9), time <= 9)
        elif family is LogisticRegression:
            y = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(float)
        else:
            y = rng.poisson(np.exp(eta)).astype(float)
        given[f"o{k}"] = {
            "y": y,
            "sample_weight": rng.integers(0, 3, N).astype(float),
            "offset": 0.2 * rng.normal(size=N) if k % 2 else None,
        }
    return X, given


@pytest.mark.sampled
@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
@pytest.mark.parametrize("family", [LogisticRegression, PoissonRegression, CoxRegression])
def test_certificates_of_outcomes_together_are_those_of_each(family, storage, monkeypatch, rng):
    found = []
    together = outcome_batches.certificates

    def kept(problems, term, beta, l1, l2, tol):
        values, v, eta = together(problems, term, beta, l1, l2, tol)
        off = beta + 0.01 * (beta != 0)  # at the optimum they are all rounding
        there = together(problems, term, off, l1, l2, tol)[0]
        alone = [certificate(p, off[:, b], l1, l2, tol) for b, p in enumerate(problems)]
        found.append((there, alone))
        return values, v, eta

    monkeypatch.setattr(outcome_batches, "certificates", kept)
    X, given = drawn(rng, family)
    table = fit_many(family(prior=Laplace(0.05)), storage(X), given)
    assert table.converged.all()
    assert found
    for there, alone in found:
        assert min(alone) > 1e-3
        np.testing.assert_allclose(there, alone, rtol=1e-9)


def test_a_working_copy_that_is_wrong_shows_in_each_outcome(monkeypatch, rng):
    X, given = drawn(rng, LogisticRegression)
    join = WorkingColumns.join

    def corrupted(self, columns):
        out = join(self, columns)
        if out and self.rows.lines is not None and self.rows.lines.data.size:
            self.rows.lines.data[:40] *= 1.05
        return out

    monkeypatch.setattr(WorkingColumns, "join", corrupted)
    X[X == 1] = 3.0  # entries that are stored
    table = fit_many(LogisticRegression(prior=Laplace(0.05)), sparse.csc_array(X), given)
    assert not table.converged.any()
    assert table.note.str.startswith("Stopped with a KKT violation").all()


@pytest.mark.host  # devices use all rows, since they cannot skip some at low cost
@pytest.mark.parametrize("family", [LogisticRegression, CoxRegression])
def test_a_hessian_of_few_rows_changes_no_optimum(family, monkeypatch, rng):
    tune(monkeypatch, outcome_batches, "OUTCOMES", rows_per_column=5)
    sampled = []
    real = systematic_sample

    def counted(v, m):
        sampled.append(m)
        return real(v, m)

    monkeypatch.setattr(outcome_batches, "systematic_sample", counted)
    X, given = drawn(rng, family)
    table = fit_many(family(prior=Laplace(0.02)), sparse.csc_array(X), given).set_index("outcome")
    assert sampled
    assert table.converged.all()
    for name, own in list(given.items())[::4]:
        alone = family(prior=Laplace(0.02)).fit(X, **own).coef_
        rows = table.loc[name]
        coef = rows.coef[rows.coefficient != "intercept"].to_numpy()
        np.testing.assert_allclose(coef * X.std(axis=0), alone * X.std(axis=0), atol=1e-7)


def test_a_systematic_sample_keeps_the_sum_and_what_is_large(rng):
    v = rng.exponential(size=5000) * (rng.random(5000) < 0.7)
    v[7] = 100.0
    at, stands = systematic_sample(v, 300)
    assert 200 < len(at) <= 300
    assert (v[at] > 0).all()
    np.testing.assert_allclose(stands.sum(), v.sum(), rtol=0.01)
    step = v.sum() / 300
    assert abs(stands[list(at).index(7)] - 100.0) <= step
    x = rng.normal(size=5000)
    np.testing.assert_allclose(stands @ x[at] ** 2, v @ x**2, rtol=0.2)


def test_a_loose_tolerance_is_kept_in_each_outcome(rng):
    X, given = drawn(rng, LogisticRegression)
    table = fit_many(LogisticRegression(prior=Laplace(0.05), tol=1e-3), X, given)
    assert table.converged.all()


@pytest.mark.parametrize("family", [LogisticRegression, CoxRegression])
def test_columns_that_join_a_sampled_hessian_are_as_if_they_had_been_there(
    family, monkeypatch, rng
):
    tune(monkeypatch, outcome_batches, "OUTCOMES", rows_per_column=2)
    X, given = drawn(rng, family)
    model = family()
    model._names = [f"x{j}" for j in range(32)]
    problem = model._make_problem(as_design(sparse.csc_array(X)), FitInputs(given["o0"]["y"]))
    likelihood = problem.likelihood
    together = (
        likelihood if family is LogisticRegression else MultiOutcomeLikelihood([likelihood], N)
    )
    active = WorkingColumns(problem.design, None, likelihood.backend)
    at = MeanCurvature(together, rng.exponential(size=N), active, 40)
    active.join(np.arange(20))
    first = at.matrix()
    active.join(np.arange(problem.design.p))
    whole, grown = at.matrix(), at.matrix(20)
    np.testing.assert_allclose(whole[:20, :20], first, rtol=1e-12)
    np.testing.assert_allclose(grown[20:], whole[20:], rtol=1e-12)
    assert np.linalg.eigvalsh(whole / np.sqrt(np.outer(*[np.diag(whole)] * 2)))[0] > -1e-9


def test_groups_side_by_side_are_the_same_groups(monkeypatch, rng):
    """Whether groups go in threads, and in how many, changes no digit."""
    X, given = drawn(rng, LogisticRegression)
    given |= {f"{name} again": {**part, "y": 1 - part["y"]} for name, part in given.items()}
    tables = []
    for least, n_jobs in ((1 << 16, 1), (0, 1), (0, 2), (0, 3)):
        tune(monkeypatch, outcome_batches, "OUTCOMES", min_rows_for_threads=least)
        model = LogisticRegression(prior=Laplace(0.05), n_jobs=n_jobs)
        tables.append(fit_many(model, sparse.csc_array(X), given))
        assert tables[-1].equals(tables[0])
    assert tables[0].converged.all()


def test_an_interrupt_stops_groups_that_are_under_way(eager_threads, monkeypatch, rng):
    X, given = drawn(rng, LogisticRegression)
    given |= {f"{name} again": part for name, part in given.items()}
    tune(monkeypatch, outcome_batches, "OUTCOMES", min_rows_for_threads=0)
    here, begun, steps = threading.get_ident(), threading.Event(), []
    heed = outcome_batches._Group._stop_if_cancelled

    def slow(self, *where):
        if threading.get_ident() == here:
            begun.wait(10)
            raise KeyboardInterrupt
        begun.set()
        time.sleep(0.05)
        steps.append(self.stop.is_set())
        heed(self, *where)

    monkeypatch.setattr(outcome_batches._Group, "_stop_if_cancelled", slow)
    with pytest.raises(KeyboardInterrupt):
        fit_many(LogisticRegression(prior=Laplace(0.05), n_jobs=2), sparse.csc_array(X), given)
    time.sleep(0.3)
    assert steps.count(True) <= 1  # the other group left at its next step
    monkeypatch.undo()
    again = fit_many(LogisticRegression(prior=Laplace(0.05), n_jobs=2), sparse.csc_array(X), given)
    assert again.converged.all()
