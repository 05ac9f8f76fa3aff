"""The interface of a likelihood: loss, gradient, curvature and scores in η."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from ..backends.backend_interface import Array, Backend
from .hessian_structures import Curvature
from .sharded_partial_likelihood import ShardedPartialLikelihood

__all__ = ["Bound", "Likelihood", "Part", "stack_outcomes"]

# The type that `Likelihood.weigh` returns depends on the family.
Bound = Any
# A picklable factory of the likelihood of some rows; see `Likelihood.parts`.
Part = Callable[[Backend], "Likelihood | None"]


class Likelihood(ABC):
    """Negative log-likelihood of a batch of replicates as a function of the linear predictor.

    Attributes
    ----------
    n : int
        Number of rows of the model, in the model's own order. Rows that cannot affect the fit are
        left out.
    order : (n,) int array or None
        The row of X for each row of the model; None is the identity.
    shift_invariant : bool
        Whether adding a constant to η changes nothing. Such a model has no intercept, and its
        columns may be centred.
    convex : bool
        Whether the loss is convex in η.
    quadratic : bool
        Whether the loss is quadratic in η, so that a minimum always exists and the curvature is
        the same everywhere.
    effective_rows : int
        Number of rows, or events, that contribute to the curvature separately, so that a random
        subset of the rows has nearly the same curvature. Zero if rows contribute only jointly, in
        small strata, or if one Hessian serves for all steps.
    additive : bool
        Whether `score_residuals` are −∂loss/∂η_i times the row's own z_i. False if the z of other
        rows contribute too, as in risk sets.
    whole_strata : bool
        Whether all rows of a stratum share one weight. Contributions to the score are then defined
        for whole strata only, because the weight of a single row has no derivative.
    many_outcomes : bool
        Whether each replicate has its own outcome; see `combine_outcomes`.
    trust_radius : float
        Largest change of the coefficient of a column of unit size for which the curvature at the
        start still describes the loss.
    ccd : {"linear", "logistic", "poisson", "strata", "cox"} or None
        The set of coordinate-wise derivatives of `steropes.solve.cyclic_descent` that belongs to
        this likelihood. A subclass does not inherit it, because its derivatives may differ.
    grouped : bool
        Whether the curvature has rank-one terms in addition to the diagonal.
    has_third_derivative : bool
        Whether `third_derivative` is implemented. A subclass does not inherit it either.
    has_interval_weights : bool
        Whether terms of a row have weights of their own, which are not numbers of rows.
    min_curvature_ratio : float
        The exact curvature is at least this multiple of the approximate one in every direction, or
        zero if no such bound is known.
    dispersion_parameters : int
        Number of dispersion parameters that are estimated with the coefficients and counted by
        information criteria.
    far_level : float
        Initial intercept if the outcome is so far from exp(0) that Newton steps from zero would
        not reach it; zero for other outcomes.
    """

    ccd: ClassVar[Literal["linear", "logistic", "poisson", "strata", "cox"] | None] = None
    has_third_derivative: ClassVar[bool] = False
    n: int
    order: np.ndarray | None = None
    has_interval_weights = False
    shift_invariant = False
    convex = True
    quadratic = False
    effective_rows = 0
    additive = True
    whole_strata = False
    many_outcomes = False
    grouped = False
    min_curvature_ratio = 0.0
    dispersion_parameters = 0
    far_level = 0.0
    trust_radius = 2.0

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "ccd" not in vars(cls):
            cls.ccd = None
        if "has_third_derivative" not in vars(cls):
            cls.has_third_derivative = False

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._repeated: dict[tuple[int, int], Any] = {}

    def dispersion(self, loss: Array, total: Array) -> Array:
        """Return the factor by which the curvature exceeds the information of the score, (B,).

        Certificates and steps use this value, which is bounded below where rounding makes it
        indistinguishable from zero. ``total`` (B,) is the sum of the row weights.
        """
        return 1.0

    def score_variance(self, loss: Array, total: Array) -> Array:
        """Return the unbounded version of `dispersion`, which statistical tests use, (B,)."""
        return 1.0

    def with_known_dispersion(self, eta: Array, weights: Bound) -> Likelihood:
        """Return the likelihood with its dispersion, if it estimates one, fixed at that for η.

        A profile likelihood is flat far out, because the best dispersion falls there. Whether the
        coefficients have a finite maximum does not depend on the value of the dispersion.
        """
        return self

    @property
    def n_eta(self) -> int:
        """Number of rows of η; ``n`` unless a row of the model has several linear predictors."""
        return self.n

    @property
    def row_of_x(self) -> np.ndarray:
        """Row of X for each row of η and of `score_residuals`, (n_eta,)."""
        return np.arange(self.n) if self.order is None else self.order

    def lift(self, offset: Array) -> Array:
        """Expand offsets (n, B) to the rows of η; return them unchanged if they have that many."""
        return offset

    def extent(self, change: Array, weights: np.ndarray | None = None) -> float:
        """Return the largest change of a linear predictor on which the loss depends.

        Parameters
        ----------
        change : (n_eta, 1) array
            Change of η.
        weights : (n,) array, optional
            Weights in the rows of X. Rows of weight zero are ignored.
        """
        xp = self.backend.xp
        if weights is not None and not (there := weights[self.row_of_x] > 0).all():
            change = change[there]
        if self.shift_invariant:
            return float(xp.ptp(change))
        return float(xp.abs(change).max())

    def level(self, eta: Array, weights: Bound) -> float:
        """Return a constant that moves η (n, 1) closer to the outcome.

        It is the initial value of an intercept; zero if no estimate is available.
        """
        return 0.0

    def intercept_levels(self, eta: Array, weights: Bound, intercepts: np.ndarray) -> np.ndarray:
        """Return constants by which several intercepts move η closer to the outcome, (k,).

        Intercepts of most families add up to one constant, so that the first takes it all.
        """
        out = np.zeros(len(intercepts))
        out[:1] = self.level(eta, weights)
        return out

    def weigh(self, w: Array) -> Bound:
        """Bind row weights (n, B), in the model's order, for use by the other methods."""
        return w

    @abstractmethod
    def evaluate(self, eta: Array, weights: Bound) -> tuple[Array, Array]:
        """Return the loss, (B,), and its derivative in η, (n, B)."""

    @abstractmethod
    def loss(self, eta: Array, weights: Bound) -> Array:
        """Return the loss alone, (B,)."""

    @abstractmethod
    def curvature(self, eta: Array, weights: Bound, exact: bool = False) -> Curvature:
        """Return the curvature of one replicate, at eta (n, 1).

        Parameters
        ----------
        exact : bool
            False allows a cheaper approximation that is accurate enough for Newton steps.
        """

    def third_derivative(self, eta: Array, weights: Bound, Z: Array) -> Array:
        """Return Σ_c D³L[z_c, z_c, ·], the third derivative of one replicate's loss in η, (n, 1).

        It equals the derivative of tr(Z' H_η Z) in η for fixed Z (n, C) and the exact H_η.
        """
        raise NotImplementedError(type(self).__name__)

    def repeated(self, x: Array, B: int) -> Array:
        """Repeat a column (n, 1) for B replicates, and cache the result.

        NumPy broadcasts a column over a few replicates several times slower than it reads the
        repeated array.
        """
        if B == 1:
            return x
        key = (id(x), B)
        if key not in self._repeated:
            self._repeated = {key: self.backend.xp.ascontiguousarray(
                self.backend.xp.broadcast_to(x, (len(x), B))
            )}  # fmt: skip
        return self._repeated[key]

    def score_residuals(self, eta: Array, weights: Bound, Z: Array) -> Array:
        """Return each row's contribution to the score Z'(−∂loss/∂η), (rows, L).

        The contributions of one replicate, with weights included, are those of independent rows;
        `row_of_x` gives the row of X for each. In a likelihood that conditions on strata, the
        contribution of a stratum is the sum over its rows. Z (n_eta, L) has a row for each row
        of η.
        """
        return -self.evaluate(eta, weights)[1] * Z

    def combine_outcomes(self, likelihoods: Sequence[Likelihood], lanes: int) -> Likelihood:
        """Combine likelihoods into one whose replicates have different outcomes.

        It has ``lanes`` replicates, of which the first have the outcomes of ``likelihoods``.
        Implemented by families whose only data are one outcome per row.
        """
        raise NotImplementedError(type(self).__name__)

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """Split the likelihood into those of the rows of X between ``cuts``.

        Returns a picklable factory for each, which makes None if its rows are uninformative. The
        whole likelihood is their sum; None if it is not, because a stratum or risk set is cut.
        """
        return None

    def exchange(self, cuts: np.ndarray) -> ShardedPartialLikelihood | None:
        """Return the exchange of risk-set sums by which shards evaluate the loss together.

        For likelihoods that are not a sum over the shards, which are the rows of X between
        ``cuts``. None if the loss needs the linear predictors of all rows.
        """
        return None

    def of_lane(self, lane: int) -> Likelihood:
        """Return the likelihood of one replicate, which differs if there are several outcomes."""
        return self

    def score(self, eta: Array, held_out: Array, train: Array) -> Array:
        """Return the log-likelihood of held-out rows, (B,).

        ``held_out`` and ``train`` (n, B) are the row weights of the held-out and training rows.
        """
        return self.score_constant(held_out) - self.loss(eta, self.weigh(held_out))

    def score_constant(self, w: Array) -> Array:
        """Return the part of `score` that does not depend on η, (B,).

        The row weights w (n, B) are in the model's order. The constant does not depend on the
        prior, but it affects the spread of the scores over folds and thus their standard error:
        without −log y! the prediction errors of frequent counts would appear enormous.
        """
        return 0.0

    def constant_omitted_by_cyclops(self, w: Array, offset: Array) -> Array:
        """Return the part of `score` that R's Cyclops leaves out, (B,).

        It matters because the search of Cyclops depends on the magnitude of the scores.

        Parameters
        ----------
        w : (n, B) array
            Weights of the held-out rows, in the model's order.
        offset : (n, 1) array
            Offsets in the same order.
        """
        return 0.0

    def score_parts(self, eta: Array, held_out: Array, train: Array) -> Array:
        """Return the sums over rows from which `score_of` computes the score, (m, B)."""
        return self.score(eta, held_out, train)[None]

    def score_of(self, parts: np.ndarray) -> np.ndarray:
        """Compute `score`, (B,), from the sums over all rows."""
        return np.asarray(parts[0])

    def log_likelihood_constant(self, weights: Array) -> Array:
        """Return the terms of the log-likelihood that do not depend on η and are not in the loss.

        ``weights`` (n, B) are in the rows of X, because rows that the model leaves out may have
        such terms too.
        """
        return 0.0


def stack_outcomes(outcomes: Sequence[Array], lanes: int, backend: Backend) -> Array:
    """Stack outcomes (n, 1) as the columns of one array, (n, lanes), padded with zeros."""
    together = np.zeros((len(outcomes[0]), lanes))
    for b, y in enumerate(outcomes):
        together[:, b] = backend.to_host(y)[:, 0]
    return backend.asarray(together)
