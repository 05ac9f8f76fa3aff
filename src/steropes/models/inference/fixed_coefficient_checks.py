"""Checks that a prior allows coefficients to be fixed at given values, for profiles and tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import DataError
from ...fit import Problem
from ...priors import LimitedPenalty
from ..fitting.fitted_model import FittedModel

__all__ = ["refuse_joint_penalty"]


def refuse_joint_penalty(
    model: FittedModel, problem: Problem, columns: Sequence[int] | np.ndarray, what: str
) -> None:
    """Refuse to hold coefficients on which the prior of the others depends."""
    prior = model.prior_
    # Powers of the information account for offsets, and thus for held coefficients.
    if prior is None or prior.plain or prior.information_power:
        return
    at = np.asarray(columns, np.int64)
    # A Hessian of zero at the estimate would not show that a smooth term leaves a column out.
    if not prior.adaptive and (term := problem.smooth_term()) is not None:
        if problem.excluded(prior)[at].all() and not term.gradient(model._beta[:, None])[at].any():
            return
        name, setting = type(prior).__name__, "exclude" in prior.get_params()
        remedy = "exclude=…" if setting else f"by a setting exclude of the class {name}"
        raise DataError(
            f"The smooth term of {name} may depend on a coefficient that is held: there is no "
            f"{what}. Leave it out of the prior ({remedy}), or use inference.bootstrap()."
        )
    joined = problem.group_penalty(prior)
    if isinstance(joined, LimitedPenalty):
        l1, l2 = problem.penalties(prior)
        if joined.joins(at) or l1[at].any() or l2[at].any():
            raise DataError(
                f"With limits of coefficients, there is a {what} of columns without a prior "
                "and limits only (exclude=…); use inference.bootstrap() for the others."
            )
        return
    if joined is not None and not joined.joins(at):
        return
    raise DataError(
        f"Under a {type(prior).__name__} prior a coefficient that is held has a part in the "
        f"prior of the others: there is no {what}. Leave it out of the prior (exclude=…), or "
        "use inference.bootstrap()."
    )
