"""Fits of many outcomes to one X, as one batch if the family allows it, in one tidy table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from ...backends import host_backend
from ...backends.blas_threads import single_threaded_blas
from ...data import check_level, refuse_other_order
from ...data.input_types import LabelsLike, VectorLike
from ...data.plottable_result_tables import ResultTable, present_coefficients
from ...design_matrix import Design, as_design
from ...errors import DataError, SeparationError
from ...fit import Problem
from ...fit.fit_checkpoints import ResultFolder
from ...fit.fits_of_many_outcomes import OutcomeFit, fit_outcomes
from ...fit.multi_fit_constants import REPLICATES
from ...fit.parallel_tasks import has_parallel_backend, run_tasks
from ...fit.shards import ShardedDesign
from ...infer import refuse_separated, refuse_undetermined
from ...priors import JointPrior
from ..estimators.penalized_model import PenalizedModel
from ..fitting.default_standard_errors import has_fractions, name_errors
from ..fitting.fit_inputs_from_tables import without_formula
from ..fitting.progress_messages import Progress
from ..fitting.row_arguments import FitInputs as FitInputs
from ..fitting.setting_checks import numerical_settings
from ..fitting.setting_types import MatrixLike
from .joint_outcomes import fit_jointly
from .outcome_inputs import (
    ROW_ARGUMENTS,
    FitArguments,
    Outcomes,
    leave_out_missing,
    read_outcomes,
    refuse_labels_in_other_order,
    refuse_twice,
)
from .shared_prior import choose_shared_prior
from .summaries_of_many_outcomes import PACKING, OutcomeSummary, tidy_table

__all__ = ["fit_many"]


def fit_many(
    estimator: PenalizedModel,
    X: MatrixLike,
    outcomes: Outcomes,
    *,
    level: float = 0.95,
    sample_weight: VectorLike | None = None,
    offset: VectorLike | None = None,
    exposure: VectorLike | None = None,
    strata: LabelsLike | None = None,
    store: str | Path | None = None,
    shared_prior: bool = False,
) -> ResultTable:
    """Fit a model of each of many outcomes to the same covariates.

    X is read once. Linear models, and logistic, Poisson and Cox models under a Laplace prior, are
    fitted as lanes of one batch, eight at a time, which share products with X, the working set
    and its Hessian; with many rows, groups of eight run in parallel in ``n_jobs`` threads. Other
    models are fitted one after another on the same design: without a Laplace prior each needs
    its own Hessian, which is most of the work.

    Under `JointLaplace` or `JointNormal` the outcomes are fitted together, because the prior
    couples their coefficients: rare outcomes then learn from frequent ones.

    Parameters
    ----------
    estimator : estimator
        Its settings apply to all fits; it is not modified.
    X : array, sparse matrix, data frame, Design or ShardedDesign, (n, p)
        Covariates of all outcomes, or the table of data for the estimator's formula. The outcome
        of the formula is not used, and the arguments below may be names of columns. Knots, levels
        and scales of the formula are those of all rows.
    outcomes : mapping or pandas, polars or pyarrow table
        Outcomes by name: y as in ``fit``, or a mapping with ``"y"`` and the outcome's own
        ``"sample_weight"``, ``"offset"``, ``"exposure"`` or ``"strata"``, which replace the
        arguments below. Rows with a missing y (NaN) are omitted from that outcome.
    level : float
        Confidence level of the Wald intervals.
    sample_weight : (n,) array, optional
        Nonnegative row weights for all outcomes. Default 1.
    offset : (n,) array, optional
        Known term of the linear predictor for all outcomes. Default 0.
    exposure : (n,) array, optional
        Positive time at risk for all outcomes.
    strata : (n,) labels, optional
        Labels of strata for all outcomes.
    store : path, optional
        A folder for finished results, with which the same call continues after an interruption.
        It contains tables of coefficients and no rows. Only trusted people may have write access
        to it.
    shared_prior : bool, default False
        Choose one variance of the prior for all outcomes, the one with the largest sum of their
        held-out log-likelihoods, in place of one for each. For outcomes that are related and
        perhaps rare, such as the components of a composite. The estimator needs a prior and a
        `CrossValidation` or number of folds.

    Returns
    -------
    DataFrame
        A row for each outcome and coefficient: ``outcome``, ``coefficient``, the columns of
        ``summary()`` (``coef``, ``lower``, ``upper``, the ratio's ``exp(coef)``, ``exp(lower)``
        and ``exp(upper)``, ``se``, ``z`` or ``t``, ``p``), ``converged`` and ``note``. Outcomes
        that cannot be fitted have NaN and the reason in ``note``, as have standard errors under
        a Laplace prior. With ``shared_prior`` also ``variance``, the same in all rows, and
        ``attrs["cv_results"]``: the columns of ``cv_results_`` as lists, with sums over the
        outcomes. Outcomes that cannot be cross-validated, for example because they have fewer
        events than there are folds, are fitted with the variance that the others choose.
        ``attrs["errors"]`` is the kind of errors, robust where weights are not whole numbers.
        Under a prior across outcomes ``attrs["optimality"]`` is the certificate of the whole fit,
        and with ``cv`` there are ``variance`` and ``attrs["cv_results"]``.

    Raises
    ------
    DataError
        If X, the settings or the form of ``outcomes`` is invalid.

    Notes
    -----
    With a joblib backend (``joblib.parallel_config(backend="dask")``, ``"ray"``, ``"loky"``)
    outcomes are distributed singly or eight at a time, and X once to each worker. The blocks of a
    `ShardedDesign` remain where they are, and its outcomes are fitted one by one.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]])
    >>> outcomes = {"a": [0, 1, 0, 1, 1, 0], "b": [1, 1, 0, 0, 1, np.nan]}
    >>> table = steropes.fit_many(steropes.LogisticRegression(), X, outcomes)
    >>> table.shape
    (4, 13)

    One variance for two outcomes:

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> y = {k: rng.random(200) < 1 / (1 + np.exp(-X[:, 0])) for k in ("angina", "infarction")}
    >>> cv = steropes.CrossValidation(5, search=[0.01, 0.1, 1], random_state=1)
    >>> model = steropes.LogisticRegression(prior=steropes.Normal(), cv=cv)
    >>> float(steropes.fit_many(model, X, y, shared_prior=True)["variance"].unique().item())
    0.1
    """
    if not isinstance(estimator, PenalizedModel):
        raise DataError(f"estimator must be a model of steropes, not {estimator!r}.")
    check_level(level)
    common: FitArguments = {
        "sample_weight": sample_weight, "offset": offset, "exposure": exposure, "strata": strata,
    }  # fmt: skip
    of_formula: set[str] = set()
    if estimator.formula is not None:
        passed = {name for name, x in common.items() if x is not None}
        estimator, X, common = without_formula(estimator, X, common)
        of_formula = {name for name, x in common.items() if x is not None} - passed
    given = read_outcomes(outcomes, common)
    refuse_twice(given, common, of_formula)
    refuse_other_order(X, **{k: v for k, v in common.items() if v is not None})
    for name, part in given.items():
        refuse_labels_in_other_order(
            X, name, {k: v for k, v in part.items() if v is not common.get(k)}
        )
    design: Any = X if isinstance(X, ShardedDesign) else as_design(X, copy=False)
    own = {name: leave_out_missing(part, design.n) for name, part in given.items()}
    model = clone(estimator)
    model._check_settings()
    if isinstance(model.prior, JointPrior):
        _refuse_beside_joint_prior(shared_prior, store)
        table = _together(model, design, own, level)
    elif shared_prior:
        table = _with_shared_prior(model, design, own, level, store)
    else:
        table = tidy_table(_fit_all(model, design, own, level, store), design.names)
    table = present_coefficients(table, model._ratio, level, labels=("outcome", "coefficient"))
    return _named(table, own)


def _refuse_beside_joint_prior(shared_prior: bool, store: str | Path | None) -> None:
    """Refuse arguments that are for outcomes that are fitted one by one."""
    if shared_prior:
        raise DataError(
            "shared_prior chooses one variance for separate fits; a prior across outcomes has one "
            "variance already. Leave shared_prior out."
        )
    if store is not None:
        raise DataError("store is for outcomes that are fitted one by one; leave it out.")


def _together(
    model: PenalizedModel,
    design: Design | ShardedDesign,
    own: Mapping[str, FitArguments],
    level: float,
) -> pd.DataFrame:
    """Fit all outcomes together under a prior that couples them."""
    joint = fit_jointly(model, design, own, level)
    note = ""
    if not joint.converged:
        note = f"Stopped with a KKT violation of {joint.optimality:.2g}, above tol. "
    parts: dict[str, OutcomeSummary] = {
        name: (table, joint.converged and table is not None, f"{note}{joint.notes[name]}".strip())
        for name, table in joint.tables.items()
    }
    table = tidy_table(parts, design.names)
    if model.cv is not None:
        table.insert(len(table.columns) - 2, "variance", joint.model.variance_)
        results = pd.DataFrame(joint.model.cv_results_)
        results = results.rename(columns={"group_variance": "mean_variance"})
        table.attrs["cv_results"] = results.to_dict("list")
    table.attrs["optimality"] = joint.optimality
    return table


def _fit_all(
    estimator: PenalizedModel,
    design: Design | ShardedDesign,
    own: Mapping[str, FitArguments],
    level: float,
    store: str | Path | None,
) -> dict[str, OutcomeSummary]:
    """Fit all outcomes, on this machine or by a joblib backend."""
    here = isinstance(design, ShardedDesign) or not has_parallel_backend()
    if store is not None or not here:
        names = list(own)
        size = REPLICATES.lanes if _can_batch(clone(estimator), design, len(own)) else 1
        tasks = [{n: own[n] for n in names[a : a + size]} for a in range(0, len(names), size)]
        settings = numerical_settings(estimator)
        key = type(estimator).__name__, settings, design.names, _checksum(design), level
        model = clone(estimator) if here else clone(estimator).set_params(n_jobs=1)
        common_to_all = model, design, level
        folder = None if store is None else ResultFolder(store, PACKING)
        parts: dict[str, OutcomeSummary] = {}
        for done in run_tasks(_of_outcomes, common_to_all, tasks, folder, key, here):
            parts.update(done)
        return parts
    return _of_outcomes((estimator, design, level), own)


def _with_shared_prior(
    model: PenalizedModel,
    design: Design | ShardedDesign,
    own: Mapping[str, FitArguments],
    level: float,
    store: str | Path | None,
) -> pd.DataFrame:
    """Choose one variance for all outcomes, and fit them with it."""
    chosen = choose_shared_prior(model, design, own)
    fixed = clone(model).set_params(prior=chosen.prior, cv=None)
    parts = _fit_all(fixed, design, own, level, store)
    for name, reason in chosen.left_out.items():
        table, converged, note = parts[name]
        if table is not None:
            more = f"Took no part in the choice of the variance: {reason} {note}".strip()
            parts[name] = table, converged, more
    table = tidy_table(parts, design.names)
    table.insert(len(table.columns) - 2, "variance", chosen.variance)
    table.attrs["cv_results"] = chosen.results.to_dict("list")
    return table


def _of_outcomes(
    common: tuple[PenalizedModel, Design | ShardedDesign, float], own: Mapping[str, FitArguments]
) -> dict[str, OutcomeSummary]:
    """Fit some outcomes and summarise them."""
    estimator, design, level = common
    if not _can_batch(clone(estimator), design, len(own)):
        return {name: _one(estimator, design, part, level) for name, part in own.items()}
    with single_threaded_blas():
        return _fit_batch(estimator, design, own, level)


def _checksum(design: Design | ShardedDesign) -> np.ndarray:
    """Compute weighted sums of the columns, which identify X in stored results."""
    backend = host_backend()
    turn = np.cos(np.arange(design.n, dtype=np.float64))[:, None]
    return design.rmatmul(turn, backend)[:, 0] * design.scale


def _can_batch(model: PenalizedModel, design: Design | ShardedDesign, count: int) -> bool:
    """Return whether several outcomes are fitted as lanes of one batch.

    ``_batched_outcomes`` is read from the class itself: a subclass may change the fit in ways
    that a batch would ignore, so that each of its outcomes is a separate call of ``fit``.
    """
    if isinstance(design, ShardedDesign):
        return False
    when = vars(type(model)).get("_batched_outcomes", "never")
    if model.cv is not None or model.solver != "newton" or when == "never":
        return False
    if model._has_varying_effects():
        return False
    if model.prior is None or not model.prior.plain:
        return model.prior is None and when == "always"
    lasso = bool((model.prior.separable(design.names).l1 > 0).any())
    return count > 1 if lasso else bool(when == "always")


def _one(
    estimator: PenalizedModel, design: Design | ShardedDesign, given: FitArguments, level: float
) -> OutcomeSummary:
    """Fit one outcome by ``fit`` and summarise it."""
    model = clone(estimator)
    try:
        model.fit(design, **{k: v for k, v in given.items() if k == "y" or v is not None})
    except (DataError, SeparationError) as error:
        return None, False, str(error)
    table = model.summary(level)
    return table, bool(model.converged_), str(table.attrs.get("note", ""))


def _fit_batch(
    estimator: PenalizedModel,
    design: Design | ShardedDesign,
    own: Mapping[str, FitArguments],
    level: float,
) -> dict[str, OutcomeSummary]:
    """Fit outcomes as lanes of one batch, with the checks of single fits."""
    parts: dict[str, OutcomeSummary] = {}
    models: list[PenalizedModel] = []
    problems: list[Problem] = []
    names: list[str] = []
    for name, given in own.items():
        model = clone(estimator)
        model._names, model.n_features_in_ = design.names, design.p
        rest = {key: given[key] for key in ROW_ARGUMENTS}
        try:
            refuse_other_order(given["y"], "y", **{k: v for k, v in rest.items() if v is not None})
            first = problems[0] if problems else None
            problem = model._make_problem(design, FitInputs(given["y"], **rest), first)
            l1, l2 = problem.penalties(problem.prior)
            if not (problems and _as_determined(problem, problems[-1])):
                refuse_undetermined(problem, problem.batch(), l1, l2)
        except (DataError, SeparationError) as error:
            parts[name] = None, False, str(error)
            continue
        names.append(name)
        models.append(model)
        problems.append(problem)
    if problems:
        model = models[0]
        l1, l2 = problems[0].penalties(problems[0].prior)

        def part(found: OutcomeFit) -> OutcomeSummary:
            k = found.number
            return _finish(models[k], problems[k], found, l1, l2, level)

        done = fit_outcomes(problems, l1, l2, model.tol, model.max_iter, part)
        parts |= {names[k]: made for k, made in done.items()}
    alone = [name for name in own if name not in parts]
    parts |= {name: _one(estimator, design, own[name], level) for name in alone}
    return {name: parts[name] for name in own}


def _as_determined(problem: Problem, other: Problem) -> bool:
    """Return whether two problems have the same curvature at the start, before y matters."""
    if problem.likelihood.order is not None:
        return False
    if problem.offset is not None or other.offset is not None:
        return False
    return np.array_equal(problem.weights, other.weights)


def _finish(
    model: PenalizedModel,
    problem: Problem,
    found: OutcomeFit,
    l1: np.ndarray,
    l2: np.ndarray,
    level: float,
) -> OutcomeSummary:
    """Store the fit of a lane in its model and summarise it.

    If its certificate is above the tolerance, the model continues the fit alone.
    """
    fit, order = found.fit, problem.likelihood.order
    try:
        if fit.optimality > model.tol:
            start = fit.beta * problem.design.scale
            with Progress(0) as progress:
                model._fit_problem(problem, problem.prior, start, progress)
        else:
            eta = found.eta if order is None else found.eta[order]
            refuse_separated(problem, fit.beta, l1, l2, eta)
            model._store_fit(problem, problem.prior, fit)
        model._refuse_weak_information(problem)
    except (DataError, SeparationError) as error:
        return None, False, str(error)
    table = model.summary(level)
    note = str(table.attrs.get("note", ""))
    if not model.converged_:
        note = f"Stopped with a KKT violation of {model.optimality_:.2g}, above tol. {note}".strip()
    return table, bool(model.converged_), note


def _named(table: ResultTable, own: Mapping[str, FitArguments]) -> ResultTable:
    """Name the kinds of errors, which depend on the weights of each outcome."""
    if "se" not in table or table["se"].isna().all():
        return table
    fitted = table.loc[table["se"].notna(), "outcome"].unique()
    weights = [own[name]["sample_weight"] for name in fitted]
    kinds = {"robust" if w is not None and has_fractions(w) else "model" for w in weights}
    return name_errors(table, " and ".join(sorted(kinds)))
