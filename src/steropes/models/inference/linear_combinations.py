"""Estimates, intervals and tests of linear combinations of coefficients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from ...data import check_level
from ...data.input_types import LabelsLike
from ...data.plottable_result_tables import ResultTable
from ...errors import DataError
from ...infer.bootstrap_intervals import Bootstrap, standard_deviations
from ..fitting.coefficient_tables import coefficient_table, critical_value
from ..fitting.covariances import CLUSTERED_KINDS
from ..fitting.default_standard_errors import has_fractional_weights, name_errors
from ..fitting.fit_steps import Estimator
from ..fitting.setting_types import WALD_KINDS, IntervalMethod
from .estimator_bootstrap import bootstrap
from .profile_likelihood import (
    combination_fits,
    combination_rows,
    profile_ends,
    ratios_against_zero,
)

__all__ = [
    "linear_combination",
]

METHODS = ("wald", *WALD_KINDS, "profile", "bootstrap")


def linear_combination(
    model: Estimator,
    combinations: str | Sequence[str] | ArrayLike,
    level: float = 0.95,
    method: IntervalMethod | None = None,
    cluster: LabelsLike | None = None,
) -> ResultTable:
    """Tabulate linear combinations of coefficients, such as differences, with intervals.

    Parameters
    ----------
    combinations : text, texts or (r, p) array
        Combinations in words, such as ``"a - b"`` or ``["a - b", "(a + b) / 2"]``, or a matrix
        with a row for each combination and a column for each coefficient, in the order of
        ``summary()``.
    level : float
        Confidence level, default 0.95.
    method : {"profile", "wald", "model", "robust", "HC0" …, "jackknife", "bootstrap"}, optional
        Default ``"profile"``, or ``"wald"``, with robust errors, if a weight is not a whole
        number and the prior has no Laplace part: the likelihood takes a weight as a number of rows.
        ``"profile"``: the values at which the log-likelihood, maximised under the
        restriction that the combination has this value, is half the chi-squared quantile
        below its maximum. Other coefficients are refitted under their prior, while the priors
        of the combination's own coefficients are ignored; ``coef`` is the maximum of the
        profile, ``z`` the signed root of twice the log-likelihood ratio against zero, and
        ``se`` the width of the interval divided by that of a standard normal one.
        ``"wald"`` (the default kind), ``"model"``, ``"robust"``, ``"HC0"`` …: from the
        covariance matrix (see `vcov`), which does not exist under a Laplace prior.
        ``"bootstrap"``: percentiles of 200 draws.
    cluster : (n,) labels, optional
        Clusters of rows, for ``"robust"`` and ``"bootstrap"``.

    Returns
    -------
    DataFrame
        A row for each combination, with the columns of ``summary()``. The table names its kind of
        errors as ``summary()`` does.

    Raises
    ------
    DataError
        If a combination cannot be read, or there is no such interval: under a Laplace prior
        no Wald interval, and no profile of effects in different periods of time, of the
        baseline of a pooled model, under a prior that joins these coefficients with others, or
        of X in blocks of rows.

    Warns
    -----
    MonotoneLikelihoodWarning
        If a profile is monotone on one side; its limit there is infinite.
    NotConvergedWarning
        If fits stopped before their tolerance; unknown limits are NaN.

    See Also
    --------
    PenalizedModel.inference.linear_hypothesis : Test several equations together.
    PenalizedModel.confint : Compute intervals of single coefficients.

    Notes
    -----
    For the profile the model is written in other coefficients, one of which is the
    combination: β_a x_a + β_b x_b = (β_a − β_b) x_a + β_b (x_a + x_b). No other column changes.

    References
    ----------
    Venzon and Moolgavkar (1988), Applied Statistics 37:87–94 (profiles). Cox and Hinkley
    (1974), Theoretical Statistics, §9.3 (likelihood ratios of functions of parameters).

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = (rng.random((400, 50)) < 0.3).astype(float)
    >>> y = rng.random(400) < 1 / (1 + np.exp(1.0 - X[:, 0]))
    >>> prior = steropes.Laplace(0.05, exclude=[0, 1])
    >>> model = steropes.LogisticRegression(prior=prior).fit(X, y)
    >>> model.inference.linear_combination("x0 - x1")[["coef", "lower", "upper"]].round(2)
    profile limits  coef  lower  upper
    x0 - x1         1.81   1.16   2.48
    """
    check_is_fitted(model)
    weighted = has_fractional_weights(model)
    if method is None:
        method = "wald" if weighted and not model._has_sparse_prior() else "profile"
    if not isinstance(method, str) or method not in METHODS:
        raise DataError(f"method must be one of {', '.join(map(repr, METHODS))}, not {method!r}.")
    check_level(level)
    clustered = method in (*CLUSTERED_KINDS, "bootstrap") or (method == "wald" and weighted)
    if cluster is not None and not clustered:
        raise DataError("cluster goes with method='robust', 'HC1', 'jackknife' or 'bootstrap'.")
    R, names = _read_combinations(model, combinations)
    if method == "profile":
        return name_errors(_profile_table(model, R, names, level), method, model)
    estimate, df = R @ np.asarray(model._coefficients()), None
    known, errors = None, str(method)
    if method == "bootstrap":
        units = {} if cluster is None else {"cluster": cluster}
        drawn = bootstrap(model, random_state=model.random_state, **units)
        with np.errstate(invalid="ignore"):  # the difference of two infinite coefficients
            values = drawn.coef @ R.T
        se = standard_deviations(values)
        of_rows = Bootstrap(values, names, estimate, np.zeros(len(R)), drawn.units, drawn.converged)
        with np.errstate(divide="ignore", invalid="ignore"):
            known = estimate / se, of_rows.confint(level).to_numpy()
    else:
        V = model.vcov(None if method == "wald" else method, cluster)
        errors = V.attrs["errors"]
        se, df = np.sqrt(np.diag(R @ V.to_numpy() @ R.T)), model._residual_df()
    table = coefficient_table(estimate, se, names, level, df, model._ratio, known)
    return name_errors(table, errors, model)


def _profile_table(model: Estimator, R: np.ndarray, names: list[str], level: float) -> ResultTable:
    """Tabulate combinations with profile intervals and likelihood-ratio tests."""
    drop = 0.5 * float(stats.chi2.ppf(level, 1))
    estimate, root, limits = np.empty(len(R)), np.empty(len(R)), np.empty((len(R), 2))
    for i, (row, name) in enumerate(zip(R, names, strict=True)):
        held, j, factor = combination_fits(model, row, name)
        (top,), ((a, b),) = profile_ends(model, held, [j], drop, factor)
        estimate[i] = factor * (top.rising_side * np.inf if top.rising_side else top.point.value)
        ends = a.value * factor, b.value * factor
        limits[i] = ends if factor > 0 else ends[::-1]
        (root[i],) = ratios_against_zero(model, held, [j], [top.point]) * np.sign(factor)
    se = (limits[:, 1] - limits[:, 0]) / (2.0 * critical_value(level))
    return coefficient_table(estimate, se, names, level, None, model._ratio, (root, limits))


def _read_combinations(
    model: Estimator, combinations: str | Sequence[str] | ArrayLike
) -> tuple[np.ndarray, list[str]]:
    """Read combinations as R (r, p), with a name for each."""
    texts = [combinations] if isinstance(combinations, str) else combinations
    if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
        if not texts:
            raise DataError("Name at least one combination, such as 'a - b'.")
        return combination_rows(model, texts), list(texts)
    columns = model._coefficient_names()
    try:
        R = np.atleast_2d(np.asarray(combinations, np.float64))
    except (TypeError, ValueError):
        raise DataError(
            f"Combinations must be text such as 'a - b' or a matrix, not {combinations!r}."
        ) from None
    if R.ndim != 2 or R.shape[1] != len(columns) or not np.isfinite(R).all():
        raise DataError(
            f"A matrix of combinations must have a finite number for each of the "
            f"{len(columns)} coefficients in every row."
        )
    if not R.any(axis=1).all():
        raise DataError("A combination needs at least one coefficient that is not zero.")
    return R, [_text(row, columns) for row in R]


def _text(row: np.ndarray, names: Sequence[str]) -> str:
    """Write a combination in words."""
    out = ""
    for j in np.flatnonzero(row).tolist():
        sign = ("-" if row[j] < 0 else "") if not out else (" - " if row[j] < 0 else " + ")
        size = abs(row[j])
        out += sign + (names[j] if size == 1 else f"{size:g}*{names[j]}")
    return out
