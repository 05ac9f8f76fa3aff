"""Residuals of Cox and Fine–Gray models, and tests of proportional hazards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any, Literal, overload

import numpy as np
import pandas as pd

from ...data.plottable_result_tables import ResultTable, present
from ...errors import DataError
from ...infer.proportional_hazards_test import proportionality_test
from ...likelihoods import CoxLikelihood
from ..fitting.default_standard_errors import name_errors
from ..fitting.proportional_hazards import ProportionalHazardsModel
from .assumption_checks import AssumptionCheck, describe_changes
from .residuals import Params, SurvivalResidualKind, survival_residuals

__all__ = ["assumptions", "hazards_residuals", "proportionality"]


@overload
def hazards_residuals(
    model: Any,
    kind: Literal["martingale", "deviance"] = "martingale",
    params: Params = None,
) -> np.ndarray: ...
@overload
def hazards_residuals(
    model: Any,
    kind: Literal["score", "dfbeta", "dfbetas", "schoenfeld", "scaled_schoenfeld"],
    params: Params = None,
) -> pd.DataFrame: ...


def hazards_residuals(
    model: ProportionalHazardsModel,
    kind: SurvivalResidualKind = "martingale",
    params: Params = None,
) -> np.ndarray | pd.DataFrame:
    """Compute residuals of the rows of the fit, as R's ``residuals.coxph``.

    Parameters
    ----------
    kind : {"martingale", "deviance", "score", "dfbeta", "dfbetas", "schoenfeld", \
            "scaled_schoenfeld"}
        ``"martingale"``: events minus expected events. ``"deviance"``: martingale residuals
        transformed to be symmetric about zero (not for Fine–Gray models). ``"score"``: the
        row's contribution to the score, ∫ (x − x̄(t)) dM(t); for Fine–Gray models including
        the contribution of the censoring weights. ``"dfbeta"``: the approximate change of
        the coefficients if the row were removed, its score times the inverse information
        (the infinitesimal jackknife). ``"dfbetas"``: the same divided by the coefficients'
        standard errors. ``"schoenfeld"``: x − x̄(t) of each event.
        ``"scaled_schoenfeld"``: Schoenfeld residuals times the covariance matrix and the
        number of events, plus the coefficient, which estimates β(t) (Grambsch and Therneau
        1994). All but ``"dfbeta"`` and ``"dfbetas"`` refer to one copy of a row regardless of
        its weight; rows with a weight of zero have NaN.
    params : name, position, sequence of them, or mask, optional
        Coefficients to include; default all. Positions are those of `confint`.

    Returns
    -------
    (n,) array, or DataFrame
        ``"martingale"`` and ``"deviance"``: an array in the order of X's rows. ``"score"``,
        ``"dfbeta"`` and ``"dfbetas"``: n rows and a column for each coefficient. Schoenfeld
        residuals: a row for each event with a positive weight, indexed by time (and stratum);
        tied events are in the order of X's rows.

    Raises
    ------
    DataError
        For ``"dfbeta"``, ``"dfbetas"`` and ``"scaled_schoenfeld"`` under a Laplace prior, or
        if the model was unpickled without its data.

    References
    ----------
    Therneau, Grambsch and Fleming (1990), Biometrika 77:147–160. Schoenfeld (1982),
    Biometrika 69:239–241. Therneau and Grambsch (2000), §4 and §6.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
    >>> abs(round(float(model.checks.residuals("martingale").sum()), 6))
    0.0
    >>> model.checks.residuals("schoenfeld").index.tolist()
    [2.0, 3.0, 5.0]
    """
    problem = model._require_data("residuals")
    return survival_residuals(
        model, problem, kind, params, model._residual_kinds, model._events, model._strata_labels
    )


def proportionality(
    model: ProportionalHazardsModel, transform: str | Callable[[np.ndarray], np.ndarray] = "km"
) -> ResultTable:
    """Test proportional hazards by score tests of effects β + θ g(t), singly and jointly.

    Parameters
    ----------
    transform : {"km", "identity", "log", "rank"} or callable
        g(t): one minus the Kaplan–Meier curve just before t (default), t, log t, the rank of
        t among all times, or a function of an array of times. The curve and the ranks count
        rows without their weights, as in R.

    Returns
    -------
    DataFrame
        One row for each coefficient and ``GLOBAL``; columns ``chisq``, ``df``, ``p``. A small
        p indicates that the hazard ratio changes with time. The numbers equal those of R's
        ``survival::cox.zph(fit, transform, terms=FALSE)``, version 3.0 or later. With a
        normal prior the effect of the shrinkage on the score is removed (Neyman's C(α)
        test), so that the numbers equal those of an unpenalised fit to first order.

    Raises
    ------
    DataError
        If the model has no covariates or a Laplace prior, or was unpickled without its data.

    See Also
    --------
    steropes.plots.schoenfeld_residuals : Draw an effect against time.

    References
    ----------
    Grambsch and Therneau (1994), Biometrika 81:515–526. Neyman (1959), Optimal asymptotic
    tests of composite statistical hypotheses, in Probability and Statistics (ed. Grenander).

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 2))
    >>> y = steropes.Surv(rng.exponential(np.exp(-X[:, 0])), np.ones(100, int))
    >>> table = steropes.CoxRegression().fit(X, y).checks.proportionality()
    >>> table.index.tolist(), table.columns.tolist()
    (['x0', 'x1', 'GLOBAL'], ['chisq', 'df', 'p'])
    """
    problem = model._require_data("the test")
    if not problem.design.p:
        raise DataError("The model has no covariates, so there is no effect to test.")
    if model._has_sparse_prior():
        raise DataError(
            "Under a Laplace prior an estimate has no distribution that a test could go by, "
            "nor has it with limits; fit with prior=None or a Normal prior (on the columns "
            "that matter) to use it."
        )
    assert isinstance(problem.likelihood, CoxLikelihood)
    time, event, entry = problem.likelihood.outcome()
    names = model._coefficient_names()
    test = proportionality_test(problem, model._beta, names, time, event, entry, transform)
    return name_errors(present(test, "hypothesis_tests"), "model", model)


def assumptions(
    model: ProportionalHazardsModel,
    threshold: float = 0.05,
    transform: str | Callable[[np.ndarray], np.ndarray] = "km",
) -> AssumptionCheck:
    """Test proportional hazards and describe the result in words, with remedies.

    Parameters
    ----------
    threshold : float
        Coefficients with a smaller p-value are doubtful, default 0.05.
    transform : {"km", "identity", "log", "rank"} or callable
        As in `proportionality`.

    Returns
    -------
    AssumptionCheck
        ``table``, ``doubtful`` and ``advice``, which are printed.

    Raises
    ------
    DataError
        As `proportionality`, or if the threshold is not between 0 and 1.

    See Also
    --------
    CoxRegression.proportionality : The tests alone.

    References
    ----------
    Grambsch and Therneau (1994), Biometrika 81:515–526. Stensrud and Hernán (2020), JAMA
    323:1401–1402 (on what the tests mean).

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(1)
    >>> x = rng.standard_normal(300)
    >>> time = np.where(x > 0, rng.exponential(1.0, 300), 0.5 + rng.exponential(0.5, 300))
    >>> model = steropes.CoxRegression().fit(x[:, None], steropes.Surv(time, [1] * 300))
    >>> model.checks.assumptions().doubtful
    ['x0']
    """
    if not isinstance(threshold, Real) or not 0 < threshold < 1:
        raise DataError(f"threshold must be between 0 and 1, such as 0.05, not {threshold!r}.")
    tests = proportionality(model, transform)
    residuals = model.checks.residuals("scaled_schoenfeld")
    return describe_changes(tests, residuals, float(threshold), partial(_remedy, model))


def _remedy(model: ProportionalHazardsModel, name: str, middle: float) -> str:
    """Name the settings that let an effect change with time."""
    if model._effects is not None:
        return "Give time_varying more or other times for it."
    return (
        f"Estimate it in periods with time_varying={{{name!r}: [{middle:.3g}]}}, or, if it is "
        "a covariate of a few values and not the effect of interest, pass it as strata=."
    )
