"""Bootstrap of a fitted estimator."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...backends.blas_threads import single_threaded_blas
from ...convergence_warning import NotConvergedWarning
from ...data.input_types import LabelsLike
from ...errors import DataError
from ...fit import Problem
from ...fit.fit_checkpoints import Packing, ResultFolder
from ...fit.parallel_tasks import has_parallel_backend, run_tasks
from ...fit.shards.time_dependent_columns_by_block import sharded_x
from ...infer.bootstrap import Choose, DrawnFits, acceleration, fit_draws, fit_draws_reselecting
from ...infer.bootstrap_draws import Draws, sampling_units
from ...infer.bootstrap_intervals import Bootstrap
from ...select import InformationCriterion
from ...select.folds import random_generator
from ..fitting.fit_steps import Estimator
from ..fitting.prior_variance_choice import chooser_of, held_out_score
from ..fitting.progress_messages import Progress
from ..fitting.setting_checks import numerical_settings
from ..fitting.setting_types import Seed

__all__ = [
    "bootstrap",
]

# Number of draws per parallel task; each task starts with the Hessian of the full data.
DRAWS_PER_TASK = 40


def bootstrap(
    model: Estimator,
    n: int = 200,
    cluster: LabelsLike | None = None,
    reselect: bool = False,
    random_state: Seed = None,
    n_jobs: int | None = None,
    store: str | Path | None = None,
) -> Bootstrap:
    """Refit the model to samples drawn with replacement, under the prior in use.

    Each draw samples as many units as have a positive weight: rows, or strata in conditional
    models (matched sets, people of a case series), or clusters. A draw is a vector of row
    weights; all draws share X, and each is fitted to its own optimum with a KKT violation of
    at most 1e-4 (in the units of ``optimality_``). The fitted model does not change.

    Parameters
    ----------
    n : int
        Number of draws, default 200.
    cluster : (n,) labels, optional
        Rows that are drawn together, such as those of one person or practice.
    reselect : bool
        Whether each draw chooses the prior's variance again by the model's ``cv``, so that
        the intervals account for this choice. Each draw then costs a cross-validation.
    random_state : int, Generator or None
        Seed of the draws, which do not depend on the number of threads.
    n_jobs : int, optional
        Number of threads, default that of the model.
    store : path, optional
        A folder for finished results, with which the same call continues after an
        interruption. It contains coefficients and no rows, and can be removed afterwards.
        Only trusted people may have write access to it.

    Returns
    -------
    Bootstrap
        ``.coef`` (n, p), ``.confint(level, method)``, ``.nonzero``, ``.se``. Draws without a
        finite optimum, or without information about a coefficient, are counted and marked.

    Raises
    ------
    DataError
        If a setting is invalid, clusters cut strata, or the model was unpickled without its
        data.

    Warns
    -----
    NotConvergedWarning
        If some draws stopped before their tolerance.

    Notes
    -----
    With a joblib backend (``joblib.parallel_config(backend="dask")``, ``"ray"``, ``"loky"``)
    draws are distributed forty at a time, and the data once to each worker. Blocks of a
    `ShardedDesign` remain where they are.

    References
    ----------
    Efron and Tibshirani (1993), An Introduction to the Bootstrap, ch. 9 (pairs), 13, 14.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 1))
    >>> y = rng.poisson(np.exp(0.5 * X[:, 0]))
    >>> model = steropes.PoissonRegression().fit(X, y)
    >>> draws = model.inference.bootstrap(50, cluster=np.arange(300) // 3, random_state=1)
    >>> draws
    <Bootstrap of 2 coefficients: 50 draws of clusters>
    >>> bool(draws.confint(0.9).loc["x0", "lower"] > 0)
    True
    """
    check_is_fitted(model)
    if isinstance(n, bool) or not isinstance(n, Integral) or n < 2:
        raise DataError(f"n must be a whole number from 2, not {n!r}.")
    problem = model._require_replicable("a bootstrap")
    codes = model._cluster_codes(cluster, problem)
    unit, units = sampling_units(problem, codes)
    draws = Draws(problem.weights, unit, int(n), random_generator(random_state))
    if len(draws.present) < 2:
        raise DataError(f"A bootstrap needs at least two {units} with a positive weight.")
    choose = _reselection(model) if reselect else None
    l1, l2 = problem.penalties(model.prior_)
    pool = problem.likelihood.backend.pool
    with pool.using(n_jobs), Progress(model.verbose) as progress:
        whole = sharded_x(problem.design) is None  # blocks have their own workers
        if store is not None or (has_parallel_backend() and whole):
            here = not whole or not has_parallel_backend()
            common = model, problem, draws, reselect, l1, l2, None if here else 1
            settings = numerical_settings(model)
            key = settings, model._beta, l1, l2, problem.weights, unit, reselect
            fits = _in_tasks(common, draws, store, key, here, progress.report)
        elif choose is None:
            fits = fit_draws(problem, model._beta, l1, l2, draws, progress.report)
        else:
            fits = fit_draws_reselecting(
                problem, choose, draws, model.tol, model.max_iter, progress.report
            )
    short = int((~fits.converged).sum())
    if short:
        warnings.warn(
            f"{short} of {n} draws stopped before their tolerance; see .converged.",
            NotConvergedWarning,
            stacklevel=2,
        )
    beta = model._beta

    @single_threaded_blas()
    def later() -> np.ndarray:
        return acceleration(problem, beta, l1, l2, unit)

    return Bootstrap(
        fits.coef, model._coefficient_names(), np.array(model._coefficients(), np.float64),
        later, units, fits.converged, fits.variance, model._ratio,
    )  # fmt: skip


def _reselection(model: Estimator) -> Choose:
    """Return a function that chooses the variance of a draw as the fit did."""
    if model.cv is None or getattr(model, "cv_results_", None) is None:
        raise DataError(
            "reselect=True chooses the variance anew as the fit did; fit with cv=… for it."
        )
    cv: Any = chooser_of(model)
    if isinstance(cv, InformationCriterion):
        return lambda part, seed: cv.run(part, model._criterion_terms)
    if not isinstance(cv.folds, Integral):
        raise DataError(
            "reselect=True cuts folds anew in each draw; give cv a number of folds instead "
            "of splits."
        )
    score = held_out_score(model, cv)
    return lambda part, seed: dataclasses.replace(cv, random_state=seed).run(part, None, score)


def _pack(fits: DrawnFits) -> tuple[dict[str, np.ndarray], None]:
    """Convert fits of draws to arrays for a file."""
    arrays = {"coef": fits.coef, "converged": fits.converged}
    return (arrays if fits.variance is None else {**arrays, "variance": fits.variance}), None


def _unpack(arrays: Mapping[str, np.ndarray], facts: None) -> DrawnFits:
    """Convert arrays from a file to fits of draws."""
    return DrawnFits(arrays["coef"], arrays["converged"], arrays.get("variance"))


PACKING = Packing(_pack, _unpack)
# Model, problem, draws, whether to choose the variance anew, the penalties, and the threads.
TaskData = tuple[Estimator, Problem, Draws, bool, np.ndarray, np.ndarray, int | None]


def _in_tasks(
    common: TaskData, draws: Draws, store: str | Path | None, key: object, here: bool,
    report: Callable[[str, float], None],
) -> DrawnFits:  # fmt: skip
    """Fit draws in parallel tasks with the configured joblib backend."""
    folder = None if store is None else ResultFolder(store, PACKING)
    seeds = [
        draws.seeds[a : a + DRAWS_PER_TASK] for a in range(0, len(draws.seeds), DRAWS_PER_TASK)
    ]
    parts = []
    for part in run_tasks(_of_seeds, common, seeds, folder, key, here):
        parts.append(part)
        report("bootstrap", len(parts) / len(seeds))
    variances = [x.variance for x in parts if x.variance is not None]
    return DrawnFits(
        np.concatenate([x.coef for x in parts]),
        np.concatenate([x.converged for x in parts]),
        np.concatenate(variances) if variances else None,
    )


@single_threaded_blas()
def _of_seeds(common: TaskData, seeds: np.ndarray) -> DrawnFits:
    """Fit some draws, with one thread if other tasks run at the same time."""
    model, problem, draws, reselect, l1, l2, threads = common
    own = draws.of(seeds)
    with problem.likelihood.backend.pool.using(threads):
        if reselect:
            choose = _reselection(model)
            return fit_draws_reselecting(problem, choose, own, model.tol, model.max_iter)
        return fit_draws(problem, model._beta, l1, l2, own)
