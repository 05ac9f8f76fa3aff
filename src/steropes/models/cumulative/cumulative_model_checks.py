"""Checks of a cumulative model: residuals, links, parallelism and the shape of α."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ...data import check_weights, refuse_other_order
from ...data.input_types import VectorLike
from ...data.plottable_result_tables import drawn_by, present
from ...data.vector_checks import check_vector
from ...errors import DataError, SeparationError
from ...infer.ordinal_diagnostics import equality_test, influence, scale_residuals
from ..fitting.coefficient_tables import critical_value
from ..fitting.default_standard_errors import name_errors
from ..fitting.ordinal_outcomes import read_new_outcome
from ..fitting.setting_types import MatrixLike
from .predictions import CumulativePredictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Parallelism", "parallelism", "plot_alpha", "residuals"]


class Parallelism(NamedTuple):
    """Result of `CumulativeDiagnostics.parallelism`.

    ``test`` has a row for each coefficient and ``GLOBAL``, with columns ``chisq``, ``df``, ``p``;
    ``coefficients`` has a row for each cut, with the coefficients of the model for y > cut, and
    ``se`` has their robust standard errors.
    """

    test: pd.DataFrame
    coefficients: pd.DataFrame
    se: pd.DataFrame

    def plot(self, *, level: float = 0.95, **options: Any) -> Any:
        """Draw the coefficients at the cuts with their robust limits.

        Parameters
        ----------
        level : float
            Confidence level, default 0.95.
        **options
            As of `steropes.plots.interval_curves`.

        Returns
        -------
        matplotlib Axes
            The axes with the plot.
        """
        half = critical_value(level) * self.se
        columns = {
            "estimate": self.coefficients,
            "lower": self.coefficients - half,
            "upper": self.coefficients + half,
        }
        table = pd.concat({name: part.stack() for name, part in columns.items()}, axis=1)
        table = table.rename_axis(["cut", "coefficient"]).reset_index()
        labelled = {"labels": ["coefficient"], "label": "Coefficient", "reference": 0.0}
        return drawn_by(
            "interval_curves", table, column="estimate", x="cut", **{**labelled, **options}
        )


def residuals(
    model: CumulativePredictions, X: MatrixLike, y: VectorLike, *, offset: VectorLike | None = None
) -> np.ndarray:
    """Compute probability-scale residuals P(Y* < y) − P(Y* > y), between −1 and 1.

    Under the model they have mean zero given X and, for a continuous outcome, are uniform
    on (−1, 1). Plots against each covariate show deviations.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit.
    y : (n,) array
        As in ``fit``.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.

    Returns
    -------
    (n,) array
        Residuals in the order of X's rows.

    References
    ----------
    Li and Shepherd (2012), Biometrika 99:473. Shepherd, Li and Liu (2016), Canadian Journal
    of Statistics 44:463.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> X = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> y = X[:, 0] + np.sin(7.0 * np.arange(40))
    >>> model = steropes.CumulativeProbabilityModel().fit(X, y)
    >>> residuals = model.checks.residuals(X, y)
    >>> bool((abs(residuals) < 1).all()), round(abs(float(residuals.mean())), 2)
    (True, 0.0)
    """
    refuse_other_order(X, y=y)
    design, eta = model._design_and_predictor(X, offset)
    outcome = read_new_outcome(y, design.n, model.categories_)
    return scale_residuals(model.levels_, model.alpha_, model._link, eta, outcome)


def parallelism(
    model: CumulativePredictions,
    X: MatrixLike,
    y: VectorLike,
    *,
    quantiles: Sequence[float] = (0.25, 0.5, 0.75),
    sample_weight: VectorLike | None = None,
    offset: VectorLike | None = None,
) -> Parallelism:
    """Test whether β is the same at every outcome, by models of y > cut at several cuts.

    The model implies P(Y > c | x) = 1 − F(α(c) − β'x) with one β for all c. The β of each cut
    is estimated separately without penalty, and Wald tests compare these estimates with
    their joint robust covariance, as Brant (1990) does for the logit.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates of the fit.
    y : (n,) array
        Outcomes of the fit, uncensored.
    quantiles : sequence of float
        Quantiles of y at which it is cut, between 0 and 1.
    sample_weight : (n,) array, optional
        Row weights as in ``fit``; they also count in the quantiles.
    offset : (n,) array, optional
        Known term of the linear predictor, as in ``fit``.

    Returns
    -------
    Parallelism
        Named tuple of tables: ``test`` has a row for each coefficient and ``GLOBAL``, with
        columns ``chisq``, ``df`` and ``p``; ``coefficients`` has a row for each cut, with the
        coefficients of the model for y > cut, and ``se`` their robust standard errors.

    Raises
    ------
    DataError
        If y is censored, the model has no covariates, or the quantiles leave fewer than two
        cuts.
    SeparationError
        If the data of a cut are separated.

    References
    ----------
    Brant (1990), Biometrics 46:1171–1178.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> X = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> y = X[:, 0] + np.sin(7.0 * np.arange(40))
    >>> model = steropes.CumulativeProbabilityModel().fit(X, y)
    >>> model.checks.parallelism(X, y).test.index.tolist()
    ['x0', 'GLOBAL']
    """
    check_is_fitted(model)
    if not len(model.coef_):
        raise DataError("The model has no covariates, so there is no effect to test.")
    refuse_other_order(X, y=y, sample_weight=sample_weight)
    offset, X = model._formula_vector("offset", X, offset), model._apply_formula(X)
    n = model._check_new(X).n
    weights = check_weights(sample_weight, n)
    outcome = read_new_outcome(y, n, model.categories_)
    if outcome.upper is not None:
        raise DataError("parallelism needs uncensored outcomes.")
    cuts = _cuts(outcome.lower, weights, quantiles)
    beta, influences, se = [], [], []
    for cut in cuts:
        m = clone(model).set_params(
            formula=None, prior=None, cv=None, reduce=None, link=model._link
        )
        try:
            m.fit(
                X, outcome.lower > cut, sample_weight=weights, offset=offset,
                fixed=None if model._fixed is None else model._fixed.given,
            )  # fmt: skip
        except SeparationError as error:
            raise SeparationError(
                f"At the cut y > {cut:g}: {error} Or choose quantiles further inside.",
                error.columns,
            ) from None
        part = m._parts[0]
        influences.append(
            influence(
                m._problem.design, part, m._offset_of(part),
                m._covariances(),
            )
        )  # fmt: skip
        beta.append(m._estimated)
        se.append(np.sqrt((influences[-1] ** 2).sum(axis=0)))
    test = equality_test(np.array(beta), influences, model._names)
    index = pd.Index(model._labels_of(cuts), name="cut", tupleize_cols=False)
    return Parallelism(
        present(test, "hypothesis_tests"),
        pd.DataFrame(np.array(beta), index, model._names),
        name_errors(pd.DataFrame(np.array(se), index, model._names), "robust"),
    )


def _cuts(y: np.ndarray, weights: np.ndarray, quantiles: Sequence[float]) -> np.ndarray:
    """Return the distinct weighted quantiles of y that are below its maximum, at least two."""
    places = check_vector(np.atleast_1d(quantiles), None, "quantiles")
    if not ((places > 0) & (places < 1)).all():
        raise DataError("quantiles must be between 0 and 1.")
    order = np.argsort(y, kind="stable")
    order = order[weights[order] > 0]
    used, mass = y[order], np.cumsum(weights[order])
    first = np.searchsorted(mass, places * mass[-1], side="right")
    cuts = np.unique(used[np.minimum(first, len(used) - 1)])
    cuts = cuts[cuts < used[-1]]
    if len(cuts) < 2:
        raise DataError("The quantiles leave fewer than two different cuts of y.")
    return cuts


def plot_alpha(
    model: CumulativePredictions,
    ax: Axes | None = None,
    *,
    level: float | None = 0.95,
    scale: Literal["linear", "log", "symlog"] = "linear",
    at: ArrayLike | None = None,
) -> Axes:
    """Draw α̂(y) with pointwise bands; requires Matplotlib.

    α̂ is the estimated transformation of y. If it is linear with ``scale="log"``, log(y) is
    the appropriate outcome of a linear model with these errors. A dashed straight line is
    drawn for comparison (least squares between the 5th and 95th percentile of the
    thresholds).

    Parameters
    ----------
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.
    level : float or None
        Confidence level of the bands, with the default kind of errors (see `vcov`); None draws
        none.
    scale : {"linear", "log", "symlog"}
        Scale of the axis of y; "log" omits thresholds at or below zero.
    at : (p,) array, optional
        Covariates x at which to draw α̂(y) − β'x with its bands. By default x = 0, where
        bands are wide if no row is near; the shape of the curve is the same for all x.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the scale is unknown, ``at`` has the wrong length, or no threshold can be drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> X = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> y = X[:, 0] + np.sin(7.0 * np.arange(40))
    >>> ax = steropes.CumulativeProbabilityModel().fit(X, y).checks.plot_alpha()
    """
    check_is_fitted(model)
    if scale not in ("linear", "log", "symlog"):
        raise DataError(f"scale must be 'linear', 'log' or 'symlog', not {scale!r}.")
    p = len(model.coef_)
    x = np.zeros(p) if at is None else np.asarray(at, np.float64).reshape(-1)
    if len(x) != p:
        raise DataError(f"at has {len(x)} entries, but there are {p} columns.")
    y = model.thresholds_
    keep = y > 0 if scale == "log" else np.ones(len(y), bool)
    if not keep.any():
        raise DataError("No threshold is above zero; use scale='linear' or 'symlog'.")
    if model.categories_ is not None and scale != "linear":
        raise DataError("The outcome has categories, which have no scale; use scale='linear'.")
    y, alpha = y[keep], model.alpha_[keep] - x @ model.coef_
    half = None
    if level is not None and not model._lacks_standard_errors():
        information, q = model._joint_covariances(None, None), critical_value(level)
        own = x if model._fixed is None else x[model._fixed.kept]
        row = (own / information.scale)[None, :]
        half = q * np.sqrt(information.predictor_variance(np.flatnonzero(keep), row)[0])
    table = pd.DataFrame({"y": y, "alpha": alpha})
    if half is not None:
        table["lower"], table["upper"] = alpha - half, alpha + half
    labels = None if model.categories_ is None else [str(v) for v in model._labels_of(y)]
    name = "α(y)" if at is None else "α(y) − β'x"
    drawn: Axes = drawn_by("transformation", table, scale=scale, names=labels, label=name, ax=ax)
    return drawn
