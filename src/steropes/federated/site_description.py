"""A site's contribution to the description of the rows of all sites."""

from __future__ import annotations

import numpy as np

from ..data.group_checks_and_counts import count_distinct
from .federated_plan import FederatedPlan
from .messages import Message
from .pooled_censoring import censoring_counts
from .site_rows import SiteRows
from .site_sums import column_moments

__all__ = ["description"]


def description(
    rows: SiteRows, plan: FederatedPlan, request: Message
) -> dict[str, np.ndarray | float]:
    """Compute the sums by name, as the protocol defines them and `pooled_description` uses them."""
    problem, w = rows.problem, rows.problem.weights
    mean, variance, filled = column_moments(rows)
    total = float(w.sum())
    out: dict[str, np.ndarray | float] = {
        "rows": int((w > 0).sum()),
        "people": count_distinct(rows.unit[w > 0]),
        "weight": total,
        "constant": _constant(rows),
        "first": total * mean,
        "within": total * variance,
        "between": total * mean**2,
        "filled": total * filled,
    }
    if plan.groups_rare_rows:  # in whole percent, which say nothing about a few people
        people = count_distinct(rows.unit[w > 0])
        out["rare"] = round(100.0 * rows.rare / max(people, 1)) * people / 100.0
    if rows.event is not None:
        out["events"] = int((rows.event & (w > 0)).sum())
    if plan.intercepts or plan.has_own_intercepts:
        exposed = w if problem.offset is None else w * np.exp(np.minimum(problem.offset, 600.0))
        middle = float(w @ rows.y) / total
        out["outcome"] = total * middle
        out["expected"] = float(exposed.sum())
        out["outcome_within"] = float(w @ (rows.y - middle) ** 2)
        out["outcome_between"] = total * middle**2
    if rows.held_out is not None:
        out["fold_weight"] = w @ rows.held_out
    if plan.shares_risk_sets and plan.planned.has_competing_events:
        out |= censoring_counts(
            rows, np.asarray(request.arrays.get("leave_times", np.empty(0)), float)
        )
    return out


def _constant(rows: SiteRows) -> float:
    """Compute the constant of the site's log-likelihood."""
    likelihood = rows.problem.likelihood
    w = likelihood.backend.asarray(rows.problem.weights[:, None])
    return float(np.sum(likelihood.backend.to_host(likelihood.log_likelihood_constant(w))))
