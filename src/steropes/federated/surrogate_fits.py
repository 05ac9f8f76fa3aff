"""One-shot estimates: the sites' own estimates, derivatives at their mean, and a surrogate.

The methods are ODAL (logistic), ODAC (Cox, stratified by site as ODACH or with shared risk sets)
and ADAP (lasso), as in R's ``pda``. They need four rounds, or six with shared risk sets. The
estimates of the sites and of the surrogate are sent in clear; the derivatives are totals.
"""

from __future__ import annotations

import numpy as np

from ..backends.blas_threads import single_threaded_blas
from ..errors import DataError
from .falsified_totals import IMPOSSIBLE
from .federated_result import FederatedResult
from .fit_in_rounds import evaluations_of
from .message_exchange import Exchange
from .messages import Message
from .pooled_description import PooledDescription, describe
from .site_sums import pack_lower, unpack_lower

__all__ = ["fit_one_shot"]


def fit_one_shot(exchange: Exchange) -> FederatedResult:
    """Run a plan's surrogate method.

    Raises
    ------
    DataError
        A site refused a request or sent an invalid answer, or no site has an estimate.
    """
    with single_threaded_blas():
        return _fit(exchange)


def _fit(exchange: Exchange) -> FederatedResult:
    """Compute the estimate; see `fit_one_shot`."""
    plan = exchange.plan
    described = describe(plan, exchange)
    first = exchange.each("estimate")
    head, p = len(plan.intercepts), len(plan.columns)
    names = [*plan.intercepts, *plan.columns]
    start, notes = _first_estimate(first, head + p)
    at = start.copy()  # with the intercept at the centres
    if head:
        at[0] += described.center @ at[1:]
    evaluations = evaluations_of(exchange, described, np.zeros(head + p))
    every = np.arange(head + p)
    H, _ = evaluations.hessian(at, every)  # one round, or two
    loss, g = evaluations.value(at)
    if not np.isfinite(loss):
        raise DataError("the log-likelihood is not finite at the sites' average estimate")
    leads = list(exchange.sites) if plan.lead == "all" else [plan.lead or plan.sites[0]]
    if leads[0] not in exchange.sites:
        raise DataError(f"the lead site {leads[0]!r} left: name another one in a new plan")
    arrays = {"at": at, "gradient": g, "hessian": pack_lower(H), "center": described.center}
    answers = exchange.each("surrogate", arrays, {"weight": described.weight}, leads)
    for answer in answers:
        _refuse_wrong(answer, at, g, described.center, plan.prior == "none")
    coef, information = _together(answers, head + p)
    vcov = None if plan.prior == "laplace" else np.linalg.inv(information)
    if vcov is None:
        notes.append("under a Laplace prior there are no standard errors")
    notes.append(f"surrogate of {', '.join(leads)} (order {plan.order})")
    optimality = max(float(a.value("optimality")) for a in answers)
    return _result(exchange, described, names, coef, vcov, optimality, notes)


def _first_estimate(answers: list[Message], q: int) -> tuple[np.ndarray, list[str]]:
    """Average each coefficient over the sites' estimates with inverse-variance weights."""
    usable = [a for a in answers if a.value("usable") is True]
    notes = [f"site {a.site!r} has no estimate: {a.value('note')}" for a in answers
             if a.value("usable") is not True]  # fmt: skip
    if not usable:
        raise DataError("no site has an initial estimate; use method='rounds'")
    estimate = np.array([a.array("estimate", (q,)) for a in usable])
    variance = np.array([a.array("variance_of_estimate", (q,)) for a in usable])
    if not (np.isfinite(estimate).all() and (variance > 0).all()):
        raise DataError("a site's estimates or variances are not finite")
    return (estimate / variance).sum(axis=0) / (1 / variance).sum(axis=0), notes


def _refuse_wrong(
    answer: Message, at: np.ndarray, g: np.ndarray, center: np.ndarray, free: bool
) -> None:
    """Refuse a surrogate's estimate and Hessian that contradict the totals.

    At ``at`` the surrogate has the gradient of all rows, and at its estimate none. Between both it
    falls, unless it is not convex there.

    Parameters
    ----------
    at, g : (q,) arrays
        The sites' average estimate with the intercept at the centres, and the gradient there.
    free : bool
        Whether no prior adds to the gradient.
    """
    q = len(at)
    b = np.array(answer.array("estimate", (q,)), float)
    H = unpack_lower(answer.array("hessian", (q * (q + 1) // 2,)), q)
    size = np.sqrt(np.maximum(np.diag(H), 0.0))
    size[size == 0] = 1.0
    smallest = np.linalg.eigvalsh(H / size[:, None] / size).min()
    if len(center) < q:
        b[0] += center @ b[1:]
    step = b - at
    rises = g @ step > IMPOSSIBLE * (np.abs(g) @ np.abs(step) + 1.0)
    if smallest < -IMPOSSIBLE * q or (free and (smallest <= 0 or rises)):
        raise DataError(
            f"the surrogate of site {answer.site!r} is impossible: its estimate does not follow "
            "from the totals, or its Hessian has no inverse. Name another site as the lead"
        )


def _together(answers: list[Message], q: int) -> tuple[np.ndarray, np.ndarray]:
    """Average the surrogates' estimates weighted by their Hessians; the mean is the information."""
    H = [unpack_lower(a.array("hessian", (q * (q + 1) // 2,)), q) for a in answers]
    b = [a.array("estimate", (q,)) for a in answers]
    if len(b) == 1:
        return np.asarray(b[0], float), H[0]
    total, coef = np.sum(H, axis=0), np.zeros(q)
    some = np.flatnonzero(np.any(b, axis=0))  # a coefficient that is zero in all stays zero
    weighted = np.sum([h @ x for h, x in zip(H, b, strict=True)], axis=0)[some]
    try:
        coef[some] = np.linalg.solve(total[np.ix_(some, some)], weighted)
    except np.linalg.LinAlgError:
        raise DataError(
            "the sites' estimates cannot be averaged, because columns are collinear over all "
            "sites: drop them, or name one site as the lead"
        ) from None
    return coef, total / len(b)


def _result(
    exchange: Exchange, described: PooledDescription, names: list[str], coef: np.ndarray,
    vcov: np.ndarray | None, optimality: float, notes: list[str],
) -> FederatedResult:  # fmt: skip
    """Collect the result of a one-shot method."""
    return FederatedResult(
        exchange.plan, names, coef, vcov, np.nan, optimality, optimality <= exchange.plan.tol,
        exchange.records, described.rows, described.people, described.events,
        [*notes, *described.notes],
    )._describe_weights(described.weight)  # fmt: skip
