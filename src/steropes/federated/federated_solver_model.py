"""A plan's model for the solver: data term, penalties, and detection of diverging coefficients.

Sites are shards of the data term; requests are looked up or asked in rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..backends import host_backend
from ..errors import DataError, SeparationError
from ..likelihoods.linear_likelihood import normal_score
from ..priors import Prior
from ..solve.data_term import ShardedFamily, ShardedTerm
from ..solve.data_term.sharded.shard_messages import (
    Answer,
    Ask,
    At,
    Gradients,
    Hessian,
    Request,
    Totals,
    Value,
)
from .federated_constants import CONVERGENCE
from .federated_plan import FederatedPlan
from .pooled_description import PooledDescription
from .pooled_evaluations import Evaluations

__all__ = ["DivergenceCheck", "FederatedModel"]


class FederatedTerm(ShardedTerm):
    """A data term with Hessians that arrive with the gradients, a new one for each step."""

    def hessian_cost(self, coarse: bool) -> float:
        """See `DataTerm.hessian_cost`."""
        return 1.0


class SiteShards:
    """All sites together as one shard with its own row weights; see `Shards`.

    Parameters
    ----------
    scale : (P,) array
        Factors by which coefficients are multiplied for the solver.
    weight : float
        Total weight of the rows.
    """

    def __init__(
        self, evaluations: Evaluations, scale: np.ndarray, weight: float, rows: int
    ) -> None:
        self.evaluations, self.scale, self.weight = evaluations, scale, weight
        self.rows = rows

    def bind(self, weights: np.ndarray, offset: np.ndarray | None, B: int) -> str:
        """See `Shards.bind`; the weights of the single replicate are at the sites."""
        if B != 1 or offset is not None:
            raise DataError("sites have the rows of one fit, with their own weights and offsets")
        return "sites"

    def release(self, key: str) -> None:
        """See `Shards.release`; nothing is kept that could be released."""

    def ask(self, request: Request) -> Sequence[Answer]:
        """See `Shards.ask`."""
        out: dict[str, np.ndarray] = {}
        for ask in request.asks:
            out |= self._answer(request.at, ask)
        return [out]

    def _answer(self, at: At, ask: Ask) -> dict[str, np.ndarray]:
        """Answer one item of a request."""
        theta = np.zeros(len(self.scale))
        theta[at.columns] = at.beta[:, 0] / self.scale[at.columns]
        match ask:
            case Totals():
                return {"weight": np.array([self.weight]), "rows": np.array(self.rows)}
            case Value():
                loss, g = self.evaluations.value(theta)
                own = (g / self.scale)[at.columns][:, None]
                entries = np.array(self.rows * len(at.columns))
                return {"loss": np.array([loss]), "gradient": own, "entries": entries}
            case Gradients():
                return {"gradients": (self.evaluations.value(theta)[1] / self.scale)[:, None]}
            case Hessian():
                H, raw = self.evaluations.hessian(theta, at.columns)
                scale = self.scale[at.columns]
                if ask.matrix:
                    return {"matrix": (H / scale / scale[:, None])[ask.first :]}
                return {"diagonal": np.diag(H) / scale**2, "uncentred": raw / scale**2}
            case _:
                raise DataError(f"sites are not asked for {type(ask).__name__}")


@dataclass(frozen=True)
class _Linear:
    """The residual variance of linear models; see `LinearLikelihood.dispersion`."""

    variance: float

    def __call__(self, loss: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Compute the residual variance from the loss and the total weight."""
        return np.maximum(
            2.0 * loss / np.maximum(total, 1e-300),
            CONVERGENCE.min_residual_share**2 * self.variance,
        )


def _one(loss: np.ndarray, total: np.ndarray) -> float:
    """Return the dispersion of all models that are not linear."""
    return 1.0


def _first(parts: np.ndarray) -> np.ndarray:
    """Return the score of all models that are not linear, their only sum."""
    return np.asarray(parts[0])


class FederatedModel:
    """The model of all sites, defined by the plan and the description of the rows.

    The coefficients θ (P,) start with the common intercept at the columns' centres, if
    any, followed by those of the columns.

    Parameters
    ----------
    reached : (P,) array, optional
        Initial coefficients: the last ones of a fit that continues without a site.

    Attributes
    ----------
    names : list of str
        Names of the coefficients.
    head : int
        1 if sites share an intercept, otherwise 0.
    scale : (P,) array
        Powers of two by which coefficients are multiplied for the solver.
    weight : float
        Total weight.
    rows : int
        Number of rows.
    start : (P,) array
        Initial coefficients.
    """

    def __init__(
        self, plan: FederatedPlan, described: PooledDescription, reached: np.ndarray | None = None
    ) -> None:
        self.plan, self.described = plan, described
        self.head = len(plan.intercepts)
        self.names = [*plan.intercepts, *plan.columns]
        self.scale = np.concatenate([np.ones(self.head), described.scale])
        self.weight, self.rows = described.weight, described.rows
        self.linear = plan.planned.quadratic
        self.family = ShardedFamily(
            described.grouped or plan.shares_risk_sets,
            np.inf if self.linear else 2.0,
            _Linear(described.outcome_variance) if self.linear else _one,
            normal_score if self.linear else _first,
        )
        self.start = np.zeros(len(self.names))
        self.start[: self.head] = described.start
        if reached is not None:
            self.start = reached.copy()

    def penalties(self, prior: Prior | None) -> tuple[np.ndarray, np.ndarray]:
        """Return λ and κ of all coefficients, (P,) each; intercepts have none."""
        l1, l2 = np.zeros(len(self.names)), np.zeros(len(self.names))
        if prior is not None:
            penalty = prior.penalty(list(self.plan.columns))
            l1[self.head :], l2[self.head :] = penalty.l1, penalty.l2
        return l1, l2

    def term(self, evaluations: Evaluations, weight: float | None = None) -> FederatedTerm:
        """Create the data term of a fit to rows of some total weight, by default all rows."""
        weight = self.weight if weight is None else weight
        shards = SiteShards(evaluations, self.scale, weight, self.rows)
        return FederatedTerm(shards, self.family, self.scale, host_backend().pool, np.ones((1, 1)))

    def noise(self, loss: float) -> float:
        """Return the residual variance of linear models, otherwise 1."""
        one = np.array(loss), np.array(self.weight)
        return float(np.max(self.family.dispersion(*one)))

    def divergence_check(
        self, term: FederatedTerm, l1: np.ndarray, l2: np.ndarray
    ) -> DivergenceCheck:
        """Create the callback that stops a fit with diverging unpenalised coefficients."""
        free = np.flatnonzero((l1 == 0) & (l2 == 0))
        return DivergenceCheck(
            term, free, self.weight / self.rows, self.names, self.linear, self._own(free)
        )

    def _own(self, free: np.ndarray) -> np.ndarray:
        """Return the map from coefficients (k,) to those with the intercept at the columns' means.

        At a centre far from the rows the intercept is an extrapolation with little information,
        although the model itself is well determined.
        """
        out = np.eye(len(self.names))
        if self.head:
            out[0, 1:] = self.described.mean - self.described.center
        return (out * (self.scale[:, None] / self.scale))[np.ix_(free, free)]


class DivergenceCheck:
    """A callback that stops a fit if unpenalised coefficients diverge, and names them.

    Parameters
    ----------
    free : (k,) int array
        The unpenalised coefficients.
    weight : float
        Mean weight of a row.
    linear : bool
        Whether the model is linear, so that nothing diverges.
    own : (k, k) array
        The map from the coefficients to those that are examined.
    """

    def __init__(
        self, term: FederatedTerm, free: np.ndarray, weight: float, names: list[str],
        linear: bool, own: np.ndarray,
    ) -> None:  # fmt: skip
        self.term, self.free, self.weight, self.names = term, free, weight, names
        self.linear, self.own = linear, own
        self.back = 2.0 * np.eye(len(own)) - own  # the inverse, as only intercepts change

    def __call__(self, step: int, violation: float) -> None:
        """Check the information at the current point.

        Raises
        ------
        SeparationError
            Coefficients diverge.
        """
        if self.linear or not len(self.free):
            return
        at = self.term.curvature(0)
        assert at is not None
        W = self.term.W
        place = np.argsort(W)[np.searchsorted(np.sort(W), self.free)]
        told = at.matrix()[np.ix_(place, place)]
        H = self.back.T @ told @ self.back
        size = np.sqrt(np.maximum(np.diag(H), 1e-300))
        values, vectors = np.linalg.eigh(H / size / size[:, None])
        own = 1.0 / np.maximum((vectors**2 / np.maximum(values, 1e-300)).sum(axis=1), 1e-300)
        slope = np.abs(self.back.T @ self.term.gradient()[place, 0])
        none = CONVERGENCE.no_information * self.weight + CONVERGENCE.sum_rounding * np.diag(told)
        calm = slope <= CONVERGENCE.max_slope * self.weight * np.sqrt(
            none / (CONVERGENCE.no_information * self.weight)
        )
        if not (calm & (own * size**2 <= none)).any():
            return
        worn = calm & (own * size**2 <= CONVERGENCE.nearly_factor * none)
        # Coefficients in units of the columns' standard deviations.
        far = np.abs(self.own @ self.term.beta[self.free, 0])[worn]
        worn = self.free[worn]
        named = [self.names[j] for j in worn[far >= CONVERGENCE.named_share * far.max()]][:8]
        raise SeparationError(
            "The likelihood seems to have no finite maximum: the coefficients of "
            f"{', '.join(map(repr, named))} diverge (they separate the outcome over all sites). "
            "Drop or merge these columns, or give them a prior.",
            named,
        )
