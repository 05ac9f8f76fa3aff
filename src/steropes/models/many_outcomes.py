"""Many outcomes over one X: one tidy table, and one batch where the family allows it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from narwhals.exceptions import DuplicateError
from sklearn.base import clone

from ..backends import get_backend
from ..backends.blas_threads import single_threaded_blas
from ..data import check_level, refuse_other_order
from ..data.array_conversion import as_numbers, as_series, refuse_lazy_query
from ..data.ordered_categories import OrderedCategories, ordered_categories
from ..design import Design, as_design
from ..errors import DataError, SeparationError
from ..fit import Problem
from ..fit.multiple_outcomes import OutcomeFit, fit_outcomes
from ..fit.parallel_tasks import has_parallel_backend, run_tasks
from ..fit.replicates import LANES
from ..fit.result_folder import Packing, ResultFolder
from ..fit.shards import ShardedDesign
from ..infer import refuse_separated, refuse_undetermined
from .base import PenalizedModel
from .fit_inputs import FitInputs as FitInputs
from .progress import Progress
from .settings import numerical_settings

__all__ = ["fit_many"]

GIVEN = ("sample_weight", "offset", "exposure", "strata")
Given = dict[str, Any]


def fit_many(
    estimator: PenalizedModel,
    X: Any,
    outcomes: Any,
    *,
    level: float = 0.95,
    sample_weight: Any = None,
    offset: Any = None,
    exposure: Any = None,
    strata: Any = None,
    store: str | Path | None = None,
) -> pd.DataFrame:
    """Fit a model of each of many outcomes to the same covariates.

    X is read once. Linear models, and logistic, Poisson and Cox ones under a Laplace prior are
    lanes of one batch, eight at a time, that share products with X, the columns that are looked
    at, and one Hessian of these; of many rows, groups of eight go side by side in ``n_jobs``
    threads. Others go one after another over the same design: without that
    prior each needs its own Hessian, which is most of the work.

    Parameters
    ----------
    estimator : estimator
        Its settings are those of all fits; it is not fitted itself.
    X : array, sparse matrix, data frame, Design or ShardedDesign, (n, p)
    outcomes : mapping or pandas, polars or pyarrow table
        The outcome of each name: y as ``fit`` takes it, or a mapping with ``"y"`` and what is the
        outcome's own of ``"sample_weight"``, ``"offset"``, ``"exposure"``, ``"strata"`` (and
        instead of the ones below). Rows whose y is missing (NaN) are left out of that outcome.
    level : float
        Of the Wald intervals.
    sample_weight, offset, exposure, strata : optional
        Of all outcomes, as in ``fit``.
    store : path, optional
        A folder for what is done, from which the same call goes on if it was interrupted. It holds
        tables of coefficients, no rows. Others must not be able to write to it.

    Where joblib has been told to use a backend (``joblib.parallel_config(backend="dask")``,
    ``"ray"``, ``"loky"``), outcomes go there, alone or eight at a time, and X once to each
    worker. A ShardedDesign stays where its blocks are, and its outcomes go one by one.

    Returns
    -------
    DataFrame
        A row an outcome and coefficient: ``outcome``, ``coefficient``, then the columns of
        ``summary()`` (``coef``, ``lower``, ``upper``, the ratio's ``exp(coef)``, ``exp(lower)``
        and ``exp(upper)``, ``se``, ``z`` or ``t``, ``p``), ``converged`` and ``note``. The
        numbers of an outcome that cannot be fitted are NaN and ``note`` gives the reason; so
        are standard errors under a Laplace prior.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]])
    >>> outcomes = {"a": [0, 1, 0, 1, 1, 0], "b": [1, 1, 0, 0, 1, np.nan]}
    >>> table = steropes.fit_many(steropes.LogisticRegression(), X, outcomes)
    >>> table.shape
    (4, 13)
    """
    if not isinstance(estimator, PenalizedModel):
        raise DataError(f"estimator must be a model of steropes, not {estimator!r}.")
    check_level(level)
    common = {
        "sample_weight": sample_weight, "offset": offset, "exposure": exposure, "strata": strata,
    }  # fmt: skip
    given = _read(outcomes, common)
    refuse_other_order(X, **{k: v for k, v in common.items() if v is not None})
    for name, part in given.items():
        _refuse_other_order(X, name, {k: v for k, v in part.items() if v is not common.get(k)})
    design: Any = X if isinstance(X, ShardedDesign) else as_design(X, copy=False)
    own = {name: _leave_out(part, design.n) for name, part in given.items()}
    model = clone(estimator)
    model._check_settings()
    here = isinstance(design, ShardedDesign) or not has_parallel_backend()
    if store is not None or not here:
        names = list(own)
        size = LANES if _can_batch(model, design, len(own)) else 1
        tasks = [{n: own[n] for n in names[a : a + size]} for a in range(0, len(names), size)]
        settings = numerical_settings(estimator)
        key = type(estimator).__name__, settings, design.names, _checksum(design), level
        model = clone(estimator) if here else clone(estimator).set_params(n_jobs=1)
        common_to_all = model, design, level
        folder = None if store is None else ResultFolder(store, PACKING)
        parts: dict[str, Part] = {}
        for done in run_tasks(_of_outcomes, common_to_all, tasks, folder, key, here):
            parts.update(done)
    else:
        parts = _of_outcomes((estimator, design, level), own)
    return _tidy(parts, design.names)


def _of_outcomes(common: tuple[Any, Design, float], own: Mapping[str, Given]) -> dict[str, Part]:
    """Summaries of some outcomes."""
    estimator, design, level = common
    if not _can_batch(clone(estimator), design, len(own)):
        return {name: _one(estimator, design, part, level) for name, part in own.items()}
    with single_threaded_blas():
        return _fit_batch(estimator, design, own, level)


def _checksum(design: Design) -> np.ndarray:
    """Sums of the columns, weighted by row, that tell one X from another."""
    backend = get_backend("cpu")
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


Part = tuple[pd.DataFrame | None, bool, str]  # summary, whether converged, note


def _pack(parts: dict[str, Part]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """Turn summaries into arrays of numbers, with their names in JSON."""
    arrays: dict[str, np.ndarray] = {}
    facts = []
    for number, (name, (table, converged, note)) in enumerate(parts.items()):
        fact: dict[str, Any] = {"name": name, "converged": converged, "note": note}
        if table is not None:
            arrays[str(number)] = table.to_numpy(np.float64)
            fact |= {"columns": list(table.columns), "rows": list(table.index)}
        facts.append(fact)
    return arrays, facts


def _unpack(arrays: Mapping[str, np.ndarray], facts: list[dict[str, Any]]) -> dict[str, Part]:
    """Make summaries of what `_pack` wrote."""
    parts: dict[str, Part] = {}
    for number, fact in enumerate(facts):
        table = None
        if "columns" in fact:
            table = pd.DataFrame(arrays[str(number)], fact["rows"], fact["columns"])
        parts[str(fact["name"])] = table, bool(fact["converged"]), str(fact["note"])
    return parts


PACKING = Packing(_pack, _unpack)


def _read(outcomes: Any, common: Given) -> dict[str, Given]:
    """What ``fit`` is given for each outcome."""
    refuse_lazy_query(outcomes, "The table of outcomes")
    if isinstance(outcomes, Mapping):
        named = list(outcomes.items())
    else:
        named = _columns(outcomes)
    if not named:
        raise DataError("outcomes must be a mapping from names to outcomes, or a data frame.")
    out: dict[str, Given] = {}
    for name, value in named:
        if str(name) in out:
            raise DataError(f"Two outcomes are called {str(name)!r}; rename one.")
        own: Given = dict(value) if isinstance(value, Mapping) else {"y": value}
        wrong = [key for key in own if key not in ("y", *GIVEN)]
        if "y" not in own or wrong:
            raise DataError(
                f"Outcome {name!r} needs y, and may have {', '.join(GIVEN)}"
                + (f"; it has {wrong[0]!r}." if wrong else ".")
            )
        out[str(name)] = {**common, **own}
    return out


def _columns(table: Any) -> list[tuple[str, Any]]:
    """Names and columns of a table of any library; none of what is no table."""
    if isinstance(table, pd.DataFrame):  # whose names may be of any type, and twice
        return [(str(name), table.iloc[:, j]) for j, name in enumerate(table.columns)]
    try:
        frame = nw.from_native(table, eager_only=True, pass_through=True)
    except DuplicateError:
        names = list(table.column_names)
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"Two outcomes are called {twice!r}; rename one.") from None
    if not isinstance(frame, nw.DataFrame):
        return []
    return [(column.name, column.to_native()) for column in frame.iter_columns()]


def _refuse_other_order(X: Any, name: str, given: Given) -> None:
    """Refuse an outcome whose rows have X's labels in another order, as a fit of it would."""
    try:  # here, where X still has its labels: a design has none
        refuse_other_order(X, **given)
    except DataError as error:
        raise DataError(f"Outcome {name!r}: {error}") from None


def _with_gaps(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return an outcome with values of other rows where it is missing, and where that is."""
    series = as_series(y)
    if series is not None and series.dtype.is_integer() and series.null_count() < len(series):
        # NumPy would make floats of whole numbers with gaps, and round those beyond 2⁵³.
        missing = series.is_null().to_numpy().astype(bool)
        return series.fill_null(series.min()).to_numpy(), missing
    y = np.asarray(y, object if isinstance(y, list | tuple) else None)  # labels may be of any type
    missing = np.asarray(pd.isna(y))
    if y.ndim == 1 and missing.any() and not missing.all():
        y = np.where(missing, y[int(np.argmin(missing))], y)
    return y, missing


def _leave_out(given: Given, n: int) -> Given:
    """Rows whose y is missing have a weight of zero, and a y that some other row has."""
    y = given["y"]
    if isinstance(y, np.ndarray) and y.dtype.names is not None:  # a survival outcome has none
        return given
    if (ordered := ordered_categories(y)) is not None:
        return _leave_out_categories(given, ordered, n)
    y, missing = _with_gaps(y)
    if y.ndim != 1 or len(y) != n or not missing.any() or missing.all():
        return given
    weight = _without(given["sample_weight"], missing)
    if weight is None:
        return given  # refused by name in the fit
    with contextlib.suppress(TypeError, ValueError):  # labels stay labels
        y = as_numbers(y, "y").astype(np.float64)
    return {**given, "y": y, "sample_weight": weight}


def _leave_out_categories(given: Given, y: OrderedCategories, n: int) -> Given:
    """`_leave_out` of ordered categories, whose order has to stay."""
    missing = y.codes < 0
    if len(y.codes) != n or not missing.any() or missing.all():
        return given
    weight = _without(given["sample_weight"], missing)
    if weight is None:
        return given
    codes = np.where(missing, y.codes[int(np.argmin(missing))], y.codes)
    filled = pd.Categorical.from_codes(codes, y.labels, ordered=True)
    return {**given, "y": filled, "sample_weight": weight}


def _without(weight: Any, missing: np.ndarray) -> np.ndarray | None:
    """Row weights with zero in some rows; None where they have another length."""
    one = weight is None or isinstance(weight, Real)  # the same for all rows
    if one:
        out = np.full(len(missing), 1.0 if weight is None else weight)
    else:
        out = np.array(weight, np.float64)
    if out.shape != missing.shape:
        return None
    out[missing] = 0.0
    return out


def _one(estimator: Any, design: Design, given: Given, level: float) -> Part:
    model = clone(estimator)
    try:
        model.fit(design, **{k: v for k, v in given.items() if k == "y" or v is not None})
    except (DataError, SeparationError) as error:
        return None, False, str(error)
    table = model.summary(level)
    return table, bool(model.converged_), str(table.attrs.get("note", ""))


def _fit_batch(
    estimator: Any, design: Design, own: Mapping[str, Given], level: float
) -> dict[str, Part]:
    """Fits in lanes of one batch, with the checks that each fit has."""
    parts: dict[str, Part] = {}
    models: list[Any] = []
    problems: list[Problem] = []
    names: list[str] = []
    for name, given in own.items():
        model = clone(estimator)
        model._names, model.n_features_in_ = design.names, design.p
        rest = {key: given[key] for key in GIVEN}
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

        def part(found: OutcomeFit) -> Part:
            k = found.number
            return _finish(models[k], problems[k], found, l1, l2, level)

        done = fit_outcomes(problems, l1, l2, model.tol, model.max_iter, part)
        parts |= {names[k]: made for k, made in done.items()}
    alone = [name for name in own if name not in parts]
    parts |= {name: _one(estimator, design, own[name], level) for name in alone}
    return {name: parts[name] for name in own}


def _as_determined(problem: Problem, other: Problem) -> bool:
    """Whether the same rows count alike: where both start, curvatures do not depend on y."""
    if problem.likelihood.order is not None:
        return False
    if problem.offset is not None or other.offset is not None:
        return False
    return np.array_equal(problem.weights, other.weights)


def _finish(
    model: Any, problem: Problem, found: OutcomeFit, l1: np.ndarray, l2: np.ndarray, level: float
) -> Part:
    """A lane's fit as the model's own, with its table.

    Where its certificate is above the tolerance the model goes on from there by itself.
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


def _tidy(parts: Mapping[str, Part], names: list[str]) -> pd.DataFrame:
    """One table of all."""
    like = next((table for table, *_ in parts.values() if table is not None), None)
    if like is None:
        like = pd.DataFrame({"coef": np.nan}, names)
    none = like.map(lambda _: np.nan)
    tables = [none if table is None else table for table, *_ in parts.values()]
    rows = [len(table) for table in tables]

    def repeated(values: list[Any]) -> np.ndarray:
        return np.repeat(np.array(values, object), rows)

    out = {
        "outcome": repeated(list(parts)),
        "coefficient": np.concatenate([table.index.to_numpy() for table in tables]),
    }
    out |= {column: np.concatenate([t[column].to_numpy() for t in tables]) for column in like}
    converged = np.repeat([converged for _, converged, _ in parts.values()], rows)
    note = repeated([note for *_, note in parts.values()])
    return pd.DataFrame({**out, "converged": converged, "note": note})
