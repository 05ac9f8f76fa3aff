"""Test of proportional hazards: the score test of x_j · g(t) in Cox's model.

Grambsch and Therneau (1994, Biometrika 81:515), computed exactly as in R's `survival::cox.zph`
since version 3.0. Let V_g be the variance of x over the risk set of event time g. The score
U = Σ_g g(t) Σ_events (x − x̄_g) of the changes of the effects has, together with that of β, the
information matrix [[Σ V_g, Σ g V_g], [Σ g V_g, Σ g² V_g]].

Under a smooth prior the score U_β of β at the estimate is not zero but equals the derivative of
the penalty, and U is correlated with it. The tested quantity is therefore the residual of U on that
score, U − Σ g V_g (Σ V_g)⁻¹ U_β. This is Neyman's C(α) test (1959), which does not require β to be
at the maximum; at the maximum it equals U.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import linalg, stats

from ..data.kaplan_meier import product_limit
from ..errors import DataError, listed
from ..fit import Problem
from ..solve.hessian import hessian
from .baseline_hazard import fitted_state
from .inference_constants import IDENTIFICATION
from .likelihood_types import cox_likelihood

__all__ = ["proportionality_test"]

TRANSFORMS = "'km', 'identity', 'log', 'rank' or a function"


def proportionality_test(
    problem: Problem,
    beta: np.ndarray,
    names: Sequence[str],
    time: np.ndarray,
    event: np.ndarray,
    entry: np.ndarray | None,
    transform: str | Callable,
) -> pd.DataFrame:
    """Test proportional hazards for each coefficient and for all together.

    Parameters
    ----------
    problem : steropes.fit.Problem
        The problem of a Cox model without an ℓ1 penalty.
    beta : (p,) array
        The estimate, in X's units.
    time, event, entry : (n,) arrays
        The outcome.
    transform : {"km", "identity", "log", "rank"} or callable
        g(t), which is centred at its mean over the events.

    Returns
    -------
    DataFrame
        One row per coefficient, and ``GLOBAL`` for all; columns ``chisq``, ``df``, ``p``.

    Raises
    ------
    DataError
        The change of an effect cannot be distinguished from the effect itself, because only the
        events at one time, or at times with equal g, inform the coefficient.
    """
    likelihood = cox_likelihood(problem)
    there = problem.weights > 0  # g does not depend on the weights otherwise, as in R
    late = None if entry is None else entry[there]
    early = there & (event == 1) & (time <= 0)
    if isinstance(transform, str) and transform == "log" and early.any():
        row = int(early.argmax())
        raise DataError(f"transform='log' needs positive event times; row {row} has none.")
    at, seen = likelihood.risk.group_time, time[there & (event == 1)]
    at = np.where(
        np.isin(at, seen), at, seen[0]
    )  # the time of an event without weight is arbitrary
    g = _transformed(at, time[there], event[there], late, transform)
    eta, weights = fitted_state(problem, beta)
    rows = problem.design.by_rows(np.arange(len(beta)), likelihood.order, likelihood.backend)
    host = likelihood.backend.to_host
    own, U = (
        -host(rows.rmatmul(likelihood.weighted_gradient(eta, weights, g**k)))[:, 0] for k in (0, 1)
    )
    V0, V1, V2 = (
        host(hessian(rows, likelihood.weighted_curvature(eta, weights, g**k))) for k in (0, 1, 2)
    )
    across = V1 @ _inverse(V0)
    left, U = V2 - across @ V1, U - across @ own  # residuals on the score of β
    left = 0.5 * (left + left.T)
    size = np.sqrt(np.diag(V2))
    if (size > 0).all():
        left, U = left / size / size[:, None], U / size
    _refuse_unchanging(left, size, names)
    total = float(U @ linalg.solve(left, U, assume_a="sym"))
    chisq = np.append(U**2 / np.diag(left), total)
    df = np.append(np.ones(len(beta), np.int64), len(beta))
    table = {"chisq": chisq, "df": df, "p": stats.chi2.sf(chisq, df)}
    return pd.DataFrame(table, index=[*names, "GLOBAL"])


def _inverse(V: np.ndarray) -> np.ndarray:
    """Invert the information on β; a pseudo-inverse if only a prior identifies some columns."""
    size = np.sqrt(np.where(np.diag(V) > 0, np.diag(V), 1.0))
    return (
        linalg.pinvh(V / size / size[:, None], rtol=IDENTIFICATION.min_information)
        / size
        / size[:, None]
    )


def _refuse_unchanging(left: np.ndarray, size: np.ndarray, names: Sequence[str]) -> None:
    """Raise an error if the information on the changes given the effects is singular."""
    bad = [name for name, s in zip(names, size, strict=True) if not s > 0]
    if not bad:
        _, pivot, rank, _ = linalg.lapack.dpstrf(left, tol=IDENTIFICATION.min_information, lower=1)
        bad = [names[j] for j in sorted(pivot[rank:] - 1)]
    if bad:
        raise DataError(
            f"Whether the effects of {listed(bad, 5)} change with time cannot be tested: the test "
            "needs events at two times with different values of transform, among people at risk "
            "who differ in these columns. Test a model without them."
        )


def _transformed(
    at: np.ndarray,
    time: np.ndarray,
    event: np.ndarray,
    entry: np.ndarray | None,
    transform: str | Callable[[np.ndarray], Any],
) -> np.ndarray:
    """Evaluate g at some times, centred at its mean over the events."""
    happened = event == 1
    if callable(transform):
        function = transform
    elif not isinstance(transform, str):
        raise DataError(f"transform must be {TRANSFORMS}, not {transform!r}.")
    elif transform == "identity":
        function = np.asarray
    elif transform == "log":
        function = np.log
    elif transform == "rank":
        ordered = np.sort(time)

        def function(t: np.ndarray) -> np.ndarray:
            below = np.searchsorted(ordered, t, side="left")
            return (below + np.searchsorted(ordered, t, side="right") + 1) / 2
    elif transform == "km":
        curve = product_limit(time, happened, entry)

        def function(t: np.ndarray) -> np.ndarray:
            return 1.0 - curve.at(t, left=True)
    else:
        raise DataError(f"transform must be {TRANSFORMS}, not {transform!r}.")
    g = np.asarray(function(at), np.float64)
    if g.shape != np.shape(at) or not np.isfinite(g).all():
        raise DataError("transform must give a finite number for each event time.")
    return g - float(np.mean(function(time[happened])))
