"""Tests of linear hypotheses, tests against the null model, and information criteria."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import linalg, stats

from ...data.input_types import LabelsLike
from ...data.plottable_result_tables import ResultTable, present, present_test
from ...errors import DataError
from ...fit import Problem
from ...infer.reparametrisation import reparametrise
from ...infer.restricted_fits import (
    RestrictedFit,
    centred_equations,
    fit_under_equations,
    fit_with_fixed_values,
    score_statistic,
)
from ...infer.wald_statistic import wald_statistic
from ..fitting.coefficient_tables import coefficient_positions
from ..fitting.covariances import has_limits
from ..fitting.default_standard_errors import has_fractional_weights, name_errors
from ..fitting.fit_steps import Estimator
from ..fitting.fixed_and_initial_coefficients import FixedCoefficients
from ..fitting.setting_types import Kind
from .fixed_coefficient_checks import refuse_joint_penalty
from .hypothesis_equations import is_equation, read_equations

__all__ = [
    "linear_hypothesis",
    "model_tests",
    "null_fit",
]

Test = Literal["wald", "score", "likelihood ratio"]
TESTS = ("likelihood ratio", "score", "wald")
ONE_ANOTHER = "The equations of the hypothesis depend on each other; leave some out."
# The note of tests against the null model with weights that are not whole.
LIKELIHOOD_TESTS = (
    "Weights are not whole numbers, but the likelihood-ratio and score tests take them as numbers "
    "of rows; the Wald test has the errors that the table names."
)
# Equations are dependent if the others leave less than this share of one of them.
DEPENDENT = 1e-9


def linear_hypothesis(
    model: Estimator,
    hypothesis: ArrayLike,
    value: ArrayLike = 0.0,
    test: Test = "wald",
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> pd.Series:
    """Test the linear hypothesis Rβ = q.

    Parameters
    ----------
    hypothesis : names, positions, equations or matrix
        Coefficients that all equal ``value``; equations in words, such as ``"a = b"`` or
        ``["a + 2*b = 1", "c = 0"]``; or R, an (r, p) or (p,) array of floats with a
        row for each equation and a column for each coefficient, in the order of
        ``summary()`` ("intercept" first if there is one). After a fit with ``fixed``, R may
        also have a column for each column of X, including fixed ones. A list of as many
        whole numbers as there are coefficients is ambiguous and refused: write ``[[0, 1]]``
        for a row of R, and names for coefficients.
    value : float or (r,) array
        The right side q, default 0. Equations in words have their own.
    test : {"wald", "score", "likelihood ratio"}
        ``"wald"`` uses the covariance matrix, ``"score"`` the gradient and information of the
        fit under the hypothesis, and ``"likelihood ratio"`` its log-likelihood. Under a prior
        on other coefficients the likelihood-ratio test is available, with these refitted
        under their prior, and with a normal prior the Wald test too.
    kind : {"model", "robust"}, optional
        Covariance matrix of the Wald test; see `vcov`.
    cluster : (n,) labels, optional
        As in `vcov`.

    Returns
    -------
    Series
        ``chisq``, ``df`` (the number of equations), ``p``. ``attrs["errors"]`` and, unless errors
        are the model's, the name of the series are the kind of errors.

    Raises
    ------
    DataError
        If equations are linearly dependent or as many as clusters, a coefficient in the
        hypothesis is penalised, or the test is not available under the prior.

    References
    ----------
    Cox and Hinkley (1974), Theoretical Statistics, §9.3.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> model = steropes.LogisticRegression().fit(X, y)
    >>> model.inference.linear_hypothesis("x0", test="likelihood ratio").round(3).to_dict()
    {'chisq': 0.68, 'df': 1.0, 'p': 0.41}
    >>> model.inference.linear_hypothesis("intercept + x0 = 0").round(3).to_dict()
    {'chisq': 0.32, 'df': 1.0, 'p': 0.571}
    """
    names = model._coefficient_names()
    R, q, columns = _read(hypothesis, value, names, model._fixed)
    if not isinstance(test, str) or test not in TESTS:
        raise DataError(f"test must be one of {', '.join(map(repr, TESTS))}, not {test!r}.")
    problem = model._require_replicable("tests of hypotheses")
    if columns is None:
        _refuse_dependent(centred_equations(problem.design, R))
    l1, l2 = problem.penalties(model.prior_)
    if ((l1 > 0) | (l2 > 0))[R.any(axis=0)].any():
        raise DataError(
            "The hypothesis is about a coefficient with a prior of its own, whose estimate is "
            "shrunken on purpose. Leave the coefficient out of the prior (exclude=…) to test "
            "it."
        )
    if test == "wald":
        V = model.vcov(kind, cluster)
        gap = R @ np.asarray(model._coefficients()) - q
        errors = V.attrs["errors"]
        return name_errors(
            _result(_wald(gap, R @ V.to_numpy() @ R.T, errors), len(q)), errors, model
        )
    if kind not in (None, "model") or cluster is not None:
        raise DataError("kind='robust' and cluster go with test='wald'.")
    if test == "score" and (l1.any() or l2.any() or has_limits(model.prior_)):
        raise DataError(
            "The score test is one of maximum likelihood; under a prior or limits of others "
            "take test='likelihood ratio'."
        )
    refuse_joint_penalty(model, problem, np.flatnonzero(R.any(axis=0)), "likelihood-ratio test")
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is refused inside
        fit = _restricted(model, problem, l1, l2, R, q, columns)
    if test == "score":
        found = score_statistic(problem, fit.beta)
    else:
        found = 2.0 * _log_likelihood_drop(model, problem, l1, l2, fit)
    return name_errors(_result(found, len(q)), "model", model)


def _restricted(
    model: Estimator,
    problem: Problem,
    l1: np.ndarray,
    l2: np.ndarray,
    R: np.ndarray,
    q: np.ndarray,
    columns: np.ndarray | None,
) -> RestrictedFit:
    """Fit under the hypothesis."""
    if columns is None:
        if l1.any() or l2.any():
            return _restricted_under_prior(model, problem, l1, l2, R, q)
        return fit_under_equations(problem, model._beta, R, q)
    if not (columns < problem.n_free).any():
        return fit_with_fixed_values(problem, l1, l2, columns, q, model._beta)
    # Hypotheses about a baseline refer to X = 0 and not to the centres of the columns.
    start = problem.design.uncentered_coefficients(model._beta)
    fit = fit_with_fixed_values(problem.uncentered(), l1, l2, columns, q, start)
    back = 2.0 * fit.beta - problem.design.uncentered_coefficients(fit.beta)  # the inverse
    return RestrictedFit(back, fit.objective)


def _restricted_under_prior(
    model: Estimator, problem: Problem, l1: np.ndarray, l2: np.ndarray, R: np.ndarray, q: np.ndarray
) -> RestrictedFit:
    """Fit under linear equations with the other coefficients under their prior."""
    start, centred = model._beta, True
    if R[:, : problem.n_free].any():  # a baseline at X = 0
        start, centred = problem.design.uncentered_coefficients(start), False
        problem = problem.uncentered()
    changed = reparametrise(problem, R)
    fit = fit_with_fixed_values(
        changed.problem, l1, l2, changed.pivots, changed.from_values(q), changed.gamma(start)
    )
    beta = changed.beta(fit.beta)
    if not centred:
        beta = 2.0 * beta - model._problem.design.uncentered_coefficients(beta)
    return RestrictedFit(beta, fit.objective)


def _log_likelihood_drop(
    model: Estimator, problem: Problem, l1: np.ndarray, l2: np.ndarray, fit: RestrictedFit
) -> float:
    """Compute the decrease of the penalised log-likelihood at a restricted fit."""
    to_likelihood = model._objective_to_likelihood(problem)
    nothing = np.zeros(0, np.int64)
    best = fit_with_fixed_values(problem, l1, l2, nothing, np.zeros(0), model._beta).objective
    return max(float(to_likelihood(best)[0] - to_likelihood(fit.objective)[0]), 0.0)


# -- the null model --------------------------------------------------------------------------


def null_fit(model: Estimator) -> tuple[Problem, RestrictedFit]:
    """Fit the model without covariates: the intercept, the baseline or nothing."""
    problem = model._require_replicable("tests against the null model")
    problem = dataclasses.replace(problem, prior=None, final_penalty=None)
    p = problem.design.p
    effects, zero = np.arange(problem.n_free, p), np.zeros(p)
    fit = fit_with_fixed_values(problem, zero, zero, effects, np.zeros(len(effects)))
    return problem, fit


def model_tests(
    model: Estimator, kind: Kind | None = None, cluster: LabelsLike | None = None
) -> ResultTable:
    """Test the hypothesis that the coefficients of all covariates are zero.

    Parameters
    ----------
    kind : {"model", "robust"}, optional
        Covariance matrix of the Wald test; see `vcov`.
    cluster : (n,) labels, optional
        As in `vcov`.

    Returns
    -------
    DataFrame
        Indexed "likelihood ratio", "score", "wald"; columns ``chisq``, ``df``, ``p``. As R's
        ``summary(coxph(…))``. ``attrs["errors"]`` is the kind of errors of the Wald test, by
        default "robust" if weights are not whole numbers; the other tests take weights as numbers
        of rows, as ``attrs["note"]`` states.

    Raises
    ------
    DataError
        If the model has a prior, because the tests are for maximum likelihood, or no
        covariates.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> steropes.LogisticRegression().fit(X, y).inference.model_tests()["chisq"].round(2).to_dict()
    {'likelihood ratio': 0.68, 'score': 0.67, 'wald': 0.64}
    """
    if model.prior_ is not None:
        raise DataError(
            "The tests are of maximum likelihood estimates; fit with prior=None to use them."
        )
    problem, null = null_fit(model)
    df = problem.design.p - problem.n_free
    if not df:
        raise DataError("A model without covariates is the null model; there is no test of it.")
    wald = linear_hypothesis(
        model, np.eye(problem.design.p)[problem.n_free :], kind=kind, cluster=cluster
    )
    ratio = 2.0 * (
        model.log_likelihood_ - model._objective_to_likelihood(problem)(null.objective)[0]
    )
    rows = [
        _result(max(float(ratio), 0.0), df),
        _result(score_statistic(problem, null.beta), df),
        wald,
    ]
    errors = wald.attrs["errors"]
    table = present(pd.DataFrame(rows, index=list(TESTS)), "hypothesis_tests")
    name_errors(table, errors, model)
    if has_fractional_weights(model) and errors != "model":
        table.attrs["note"] = LIKELIHOOD_TESTS
    if errors != "model":
        table.columns.name += " (wald)"
    return table


def _read(
    hypothesis: ArrayLike, value: ArrayLike, names: list[str], fixed: FixedCoefficients | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Read Rβ = q in terms of the estimated coefficients.

    Returns
    -------
    R : (r, p) array
    q : (r,) array
        After subtraction of the contribution of fixed coefficients to the left-hand side.
    columns : (r,) int array or None
        The coefficient that each row sets to a value; None if some row has another form.
    """
    words = _equations_in_words(hypothesis, names, fixed)
    if words is not None:
        if np.any(np.asarray(value) != 0.0):
            raise DataError("Equations have their right sides in the text; leave value out.")
        hypothesis, value = words
    R, given = _equations(hypothesis, names, fixed)
    size = np.sqrt((R**2).sum(axis=1))
    if (size == 0).any():
        raise DataError(f"Row {int(np.argmin(size))} of the hypothesis is zero.")
    if len(R) > R.shape[1]:
        raise DataError(ONE_ANOTHER)
    try:
        q = np.broadcast_to(np.asarray(value, np.float64), (len(R),)).copy()
    except (TypeError, ValueError):
        raise DataError(f"value must be a number or one an equation, not {value!r}.") from None
    if not np.isfinite(q).all():
        raise DataError(f"value must be finite, not {value!r}.")
    q -= given
    single = (R != 0).sum(axis=1) == 1
    if not single.all():
        return R, q, None
    columns = np.argmax(R != 0, axis=1)
    if len(set(columns)) < len(columns):
        raise DataError(ONE_ANOTHER)
    return R, q, columns if (R[np.arange(len(R)), columns] == 1).all() else None


def _equations_in_words(
    hypothesis: ArrayLike, names: list[str], fixed: FixedCoefficients | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return R and q of equations in words; None if the hypothesis has another form."""
    texts = [hypothesis] if isinstance(hypothesis, str) else hypothesis
    if not isinstance(texts, list | tuple):
        return None
    whole = list(names) if fixed is None else fixed.all_names(names)
    if not any(is_equation(text, whole) for text in texts):
        return None
    return read_equations(texts, whole)


def _refuse_dependent(R: np.ndarray) -> None:
    """Refuse linearly dependent equations; ``R`` refers to the scaled and centred columns."""
    R = R / np.sqrt((R**2).sum(axis=1))[:, None]
    pivots = np.abs(np.diag(linalg.qr(R.T, mode="r", pivoting=True)[0]))
    if pivots.min() < DEPENDENT:
        raise DataError(ONE_ANOTHER)


def _equations(
    hypothesis: ArrayLike, names: list[str], fixed: FixedCoefficients | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return R of the estimated coefficients, (r, p), and the fixed ones' part of Rβ, (r,)."""
    array = None if isinstance(hypothesis, str) else np.asarray(hypothesis)
    if array is not None and array.size == 0:
        raise DataError("A hypothesis needs one equation at least.")
    whole = len(names) if fixed is None else len(fixed.all_names(names))
    if array is None or not (array.ndim == 2 or (array.ndim == 1 and array.dtype.kind == "f")):
        if array is not None and _looks_like_a_row(array, {len(names), whole}):
            raise DataError(
                f"{hypothesis!r} can be positions or a row of a matrix, one number a coefficient. "
                f"For a row write {[array.tolist()]!r}, or floats; for positions give names, such "
                f"as {names[:2]!r}."
            )
        chosen = coefficient_positions(hypothesis, names, fixed)
        R = np.zeros((len(chosen), len(names)))
        R[np.arange(len(chosen)), chosen] = 1.0
        return R, np.zeros(len(chosen))
    try:
        R = np.atleast_2d(array).astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"A hypothesis must be numbers, not {hypothesis!r}.") from None
    if R.shape[1] not in (len(names), whole):
        raise DataError(
            f"The hypothesis has {R.shape[1]} columns, but there are {len(names)} coefficients."
        )
    if not np.isfinite(R).all():
        raise DataError("A hypothesis needs finite numbers.")
    if fixed is None or R.shape[1] == len(names):
        return R, np.zeros(len(R))
    given = R[:, whole - len(fixed.values) :] @ fixed.values
    return R[:, fixed.rows_of_table(names) >= 0], given


def _wald(gap: np.ndarray, V: np.ndarray, kind: str) -> float:
    """Compute the Wald statistic; refuse a singular covariance matrix of the equations."""
    if not (np.isfinite(V).all() and (np.diag(V) > 0).all()):
        raise DataError(
            "There is no Wald test without standard errors. A linear model has none where it has "
            "as many coefficients as rows, or nothing is left to explain."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        statistic, rank = wald_statistic(gap, V)
    if rank < len(V):
        words = "equations depend on each other as far as their covariance matrix knows"
        if kind == "robust":  # the scores of all clusters add up to zero
            words = "clusters (or rows, or strata) are too few: one more than equations is needed"
        raise DataError(f"There is no Wald test of {len(V)} equations together: the {words}.")
    if not np.isfinite(statistic):
        raise DataError(
            "value is too far from the estimate for a test statistic that a number can hold. Check "
            "its unit."
        )
    return statistic


def _looks_like_a_row(array: np.ndarray, lengths: set[int]) -> bool:
    """Return whether integers have the length of a contrast, such as (0, 1, −1)."""
    whole = array.dtype.kind in "iu" and array.ndim == 1
    return whole and len(array) > 1 and len(array) in lengths


def _result(statistic: float, df: int) -> pd.Series:
    """Return a chi-squared statistic with its degrees of freedom and p-value."""
    return present_test(statistic, float(df), float(stats.chi2.sf(statistic, df)))
