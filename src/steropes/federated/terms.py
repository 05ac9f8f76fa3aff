"""A plan's model as the solver knows it: its data term, its penalties, and when it runs away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..backends import get_backend
from ..errors import SeparationError
from ..likelihoods.linear_likelihood import normal_score
from ..priors import Prior
from ..solve.data_term import ShardedFamily
from .described import Described
from .evaluations import Evaluations
from .plan import FederatedPlan
from .shards import FederatedTerm, SiteShards

__all__ = ["ITERATIONS", "FederatedModel", "Watch"]

LEAST = 1e-3  # of the outcome's spread: a residual standard deviation as small as none
WORN = 1e-6  # rows' worth of information about a standardised coefficient: as good as none
NEARLY = 100.0  # times that: others that go the same way
CALM = 1e-3  # rows' worth of slope: with more a step went too far, where there is no information
ROUNDING = 1e-12  # of sums about centres that are far from a site's rows
FAR = 0.3  # of the largest coefficient: those that run away with it
ITERATIONS = 200


@dataclass(frozen=True)
class _Linear:
    """The residual variance of linear models, as `LinearLikelihood.dispersion` has it."""

    variance: float

    def __call__(self, loss: np.ndarray, total: np.ndarray) -> np.ndarray:
        return np.maximum(2.0 * loss / np.maximum(total, 1e-300), LEAST**2 * self.variance)


def _one(loss: np.ndarray, total: np.ndarray) -> float:
    return 1.0


def _first(parts: np.ndarray) -> np.ndarray:
    return np.asarray(parts[0])


class FederatedModel:
    """The model of all sites, as the plan and the description define it.

    Coefficients θ (P,) are the intercept that sites share, at the columns' centres, if there is
    one, and those of the columns.

    Parameters
    ----------
    plan : FederatedPlan
    described : Described
    reached : (P,) array, optional
        Where to start: of a fit that goes on without a site, its last coefficients.

    Attributes
    ----------
    names : list of str
    head : int
        1 where sites share an intercept, otherwise 0.
    scale : (P,) array
        Powers of two that coefficients are multiplied by for the solver.
    weight : float
        Of all rows.
    rows : int
    start : (P,) array
    """

    def __init__(
        self, plan: FederatedPlan, described: Described, reached: np.ndarray | None = None
    ) -> None:
        self.plan, self.described = plan, described
        self.head = len(plan.intercepts)
        self.names = [*plan.intercepts, *plan.columns]
        self.scale = np.concatenate([np.ones(self.head), described.scale])
        self.weight, self.rows = described.weight, described.rows
        self.linear = plan.model == "linear"
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
        """λ and κ of all P, (P,) each; intercepts have none."""
        l1, l2 = np.zeros(len(self.names)), np.zeros(len(self.names))
        if prior is not None:
            penalty = prior.penalty(list(self.plan.columns))
            l1[self.head :], l2[self.head :] = penalty.l1, penalty.l2
        return l1, l2

    def term(self, evaluations: Evaluations, weight: float | None = None) -> FederatedTerm:
        """The data term of one fit, of rows of some weight; of all by default."""
        weight = self.weight if weight is None else weight
        shards = SiteShards(evaluations, self.scale, weight, self.rows)
        return FederatedTerm(
            shards, self.family, self.scale, get_backend("cpu").pool, np.ones((1, 1))
        )

    def noise(self, loss: float) -> float:
        """The residual variance of linear models, otherwise 1."""
        one = np.array(loss), np.array(self.weight)
        return float(np.max(self.family.dispersion(*one)))

    def watch(self, term: FederatedTerm, l1: np.ndarray, l2: np.ndarray) -> Watch:
        """What stops a fit whose unpenalised coefficients run away."""
        free = np.flatnonzero((l1 == 0) & (l2 == 0))
        return Watch(term, free, self.weight / self.rows, self.names, self.linear, self._own(free))

    def _own(self, free: np.ndarray) -> np.ndarray:
        """The map from coefficients (k,) to those with the intercept at the columns' means.

        At a centre that is far from the rows an intercept is an extrapolation: nothing is known of
        it there, though all is known of the model.
        """
        out = np.eye(len(self.names))
        if self.head:
            out[0, 1:] = self.described.mean - self.described.center
        return (out * (self.scale[:, None] / self.scale))[np.ix_(free, free)]


class Watch:
    """Stops a fit whose unpenalised coefficients run away, by name.

    Parameters
    ----------
    term : FederatedTerm
    free : (k,) int array
        The unpenalised coefficients.
    weight : float
        Of a row, on average.
    names : list of str
        Of all coefficients.
    linear : bool
        Nothing runs away in linear models.
    own : (k, k) array
        What turns the coefficients to those that are looked at.
    """

    def __init__(
        self, term: FederatedTerm, free: np.ndarray, weight: float, names: list[str],
        linear: bool, own: np.ndarray,
    ) -> None:  # fmt: skip
        self.term, self.free, self.weight, self.names = term, free, weight, names
        self.linear, self.own = linear, own
        self.back = 2.0 * np.eye(len(own)) - own  # its inverse: only intercepts are moved

    def __call__(self, step: int, violation: float) -> None:
        """Look at the information at the point."""
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
        none = WORN * self.weight + ROUNDING * np.diag(told)
        calm = slope <= CALM * self.weight * np.sqrt(none / (WORN * self.weight))
        if not (calm & (own * size**2 <= none)).any():
            return
        worn = calm & (own * size**2 <= NEARLY * none)
        far = np.abs(self.own @ self.term.beta[self.free, 0])[worn]  # in the columns' spreads
        worn = self.free[worn]
        named = [self.names[j] for j in worn[far >= FAR * far.max()]][:8]
        raise SeparationError(
            "The likelihood seems to have no finite maximum: the coefficients of "
            f"{', '.join(map(repr, named))} run away (the outcome is separated by them, over all "
            "sites). Drop or merge these columns, or give them a prior.",
            named,
        )
