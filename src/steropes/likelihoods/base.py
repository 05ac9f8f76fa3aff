"""What the solver asks of a likelihood."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from ..backends.protocols import Backend
from .curvature import AnyCurvature
from .sharded_partial_likelihood import RiskExchange

__all__ = ["Bound", "Likelihood", "Part", "stack_outcomes"]

Bound = Any  # what `Likelihood.weigh` returns: only the family knows
Part = Callable[[Backend], "Likelihood | None"]  # see `Likelihood.parts`


class Likelihood(ABC):
    """Negative log-likelihood of a batch of replicates, in the linear predictor.

    Attributes
    ----------
    n : int
        Rows of the model (those that can matter), in the model's own order.
    order : (n,) int array or None
        The user's row for each row of the model; None is the identity.
    shift_invariant : bool
        Whether adding a constant to η changes nothing: no intercept, and columns may be
        centred.
    convex : bool
        Whether the loss is convex in η.
    quadratic : bool
        Whether it is quadratic in η: it has a minimum whatever the data, and its curvature at
        any point holds everywhere.
    effective_rows : int
        Rows, or events, each of which adds to the curvature by itself, so that a random part of
        the rows has nearly the same curvature; 0 where rows only matter together, in small
        strata, or where one Hessian serves from the first step to the last.
    additive : bool
        Whether `score_residuals` are −∂loss/∂η_i times the row's own z_i, so that their products
        are a matter of the rows of η. Not where other rows' z have a part, as in risk sets.
    whole_strata : bool
        Whether a stratum has one weight: parts of the score are then whole strata's alone, as
        there is no derivative in the weight of a row.
    many_outcomes : bool
        Whether replicates have outcomes of their own; see `beside`.
    reach : float
        Change of a coefficient of a column of size one beyond which the curvature at the start
        says nothing of the loss.
    ccd : {"linear", "logistic", "poisson", "strata", "cox"} or None
        Which coordinate-wise derivatives of `steropes.solve.cyclic_descent` are those of this
        likelihood. A subclass does not inherit it, because its derivatives may differ.
    grouped : bool
        Whether its curvature has rank-one terms beside the diagonal.
    has_third : bool
        Whether there is `third`, which a subclass does not inherit either.
    """

    ccd: ClassVar[Literal["linear", "logistic", "poisson", "strata", "cox"] | None] = None
    has_third: ClassVar[bool] = False
    n: int
    order: np.ndarray | None = None
    shift_invariant = False
    convex = True
    quadratic = False
    effective_rows = 0
    additive = True
    whole_strata = False
    many_outcomes = False
    grouped = False
    trust_radius = 2.0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "ccd" not in vars(cls):
            cls.ccd = None
        if "has_third" not in vars(cls):
            cls.has_third = False

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._repeated: dict[tuple[int, int], Any] = {}

    def dispersion(self, loss: Any, total: Any) -> Any:
        """Variance by which the loss's curvature overstates its score's information, (B,).

        As certificates and steps take it: at least what is worth telling from zero. ``total``
        (B,) is the sum of the row weights.
        """
        return 1.0

    def score_variance(self, loss: Any, total: Any) -> Any:
        """The same as tests take it, however small."""
        return 1.0

    @property
    def n_eta(self) -> int:
        """Rows of η, ``n`` unless a row of the model has several linear predictors."""
        return self.n

    @property
    def row_of_x(self) -> np.ndarray:
        """Row of X that each row of η (of `score_residuals`) belongs to."""
        return np.arange(self.n) if self.order is None else self.order

    def lift(self, offset: Any) -> Any:
        """Offsets (n, B) as rows of η; what has as many rows as η already is returned as it is."""
        return offset

    def extent(self, change: Any, weights: np.ndarray | None = None) -> float:
        """How far a change of η, (rows of η, 1), moves the predictors the loss depends on.

        Those of rows whose weight (n,), in the rows of X, is zero are none.
        """
        xp = self.backend.xp
        if weights is not None and not (there := weights[self.row_of_x] > 0).all():
            change = change[there]
        if self.shift_invariant:
            return float(xp.ptp(change))
        return float(xp.abs(change).max())

    def level(self, eta: Any, weights: Any) -> float:
        """Return a constant that η (n, 1) can be moved by to be nearer to the outcome.

        Zero where nothing is known; only a start for a model with an intercept.
        """
        return 0.0

    def weigh(self, w: Any) -> Any:
        """Bind row weights (n, B) in the model's order; what it returns goes to the others."""
        return w

    @abstractmethod
    def evaluate(self, eta: Any, weights: Any) -> tuple[Any, Any]:
        """Return the loss, (B,), and its derivative in η, (n, B)."""

    @abstractmethod
    def loss(self, eta: Any, weights: Any) -> Any:
        """Return the loss alone, (B,)."""

    @abstractmethod
    def curvature(self, eta: Any, weights: Any, exact: bool = False) -> AnyCurvature:
        """Return the curvature of one replicate: eta (n, 1).

        Parameters
        ----------
        exact : bool
            False allows an approximation that is cheaper and good enough for Newton steps.
        """

    def third(self, eta: Any, weights: Any, Z: Any) -> Any:
        """Σ_c D³L[z_c, z_c, ·], the third derivative of one replicate's loss in η, (n, 1).

        It is the derivative of tr(Z' H_η Z) for fixed Z (n, C), with the exact H_η.
        """
        raise NotImplementedError(type(self).__name__)

    def repeated(self, x: Any, B: int) -> Any:
        """A column (n, 1) repeated for B replicates, kept for the next call.

        NumPy is several times slower at broadcasting a column over a few replicates than at
        reading it in full.
        """
        if B == 1:
            return x
        key = (id(x), B)
        if key not in self._repeated:
            self._repeated = {key: self.backend.xp.ascontiguousarray(
                self.backend.xp.broadcast_to(x, (len(x), B))
            )}  # fmt: skip
        return self._repeated[key]

    def score_residuals(self, eta: Any, weights: Any, Z: Any) -> Any:
        """Parts of the score Z'(−∂loss/∂η), weights included, of one replicate: (rows, L).

        Z (n_eta, L) are columns over the rows of η, and `row_of_x` says whose the parts are. They
        are those of independent rows; a likelihood that conditions on strata has the part of a
        whole stratum as the sum over its rows.
        """
        return -self.evaluate(eta, weights)[1] * Z

    def beside(self, likelihoods: Sequence[Likelihood], lanes: int) -> Likelihood:
        """One likelihood whose replicates have the outcomes of several, in as many lanes.

        Of families that have an outcome a row and nothing else; its replicates differ in y.
        """
        raise NotImplementedError(type(self).__name__)

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """Make the likelihoods of the rows of X between cuts; the whole one is their sum.

        What makes one can be pickled, and makes None where the rows say nothing. None where the
        loss is no such sum: where a stratum, or a risk set, is cut.
        """
        return None

    def exchange(self, cuts: np.ndarray) -> RiskExchange | None:
        """How blocks of rows of X, between cuts, make the loss where it is no sum over them.

        None where nothing less than all rows' predictors would do.
        """
        return None

    def of_lane(self, lane: int) -> Likelihood:
        """The likelihood of one replicate, (n, 1): another where there are many outcomes."""
        return self

    def score(self, eta: Any, held_out: Any, train: Any) -> Any:
        """Log-likelihood of held-out rows, (B,), for row weights (n, B) of them and of training."""
        return self.score_constant(held_out) - self.loss(eta, self.weigh(held_out))

    def score_constant(self, w: Any) -> Any:
        """What `score` has beside the loss, (B,), for row weights w (n, B) in the model's order.

        No prior changes it, but it is in how far folds' scores are apart, and so in their standard
        error: without −log y! frequent counts would seem to be predicted with enormous errors.
        """
        return 0.0

    def unpublished_constant(self, w: Any, offset: Any) -> Any:
        """What of `score` R's Cyclops leaves out, (B,): its search goes by sizes of scores.

        Parameters
        ----------
        w : (n, B) array
            Of held-out rows, in the model's order.
        offset : (n, 1) array
            In the same order.
        """
        return 0.0

    def score_parts(self, eta: Any, held_out: Any, train: Any) -> Any:
        """What of `score` is a sum over rows, (m, B); see `score_of`."""
        return self.score(eta, held_out, train)[None]

    def score_of(self, parts: np.ndarray) -> np.ndarray:
        """`score` of all rows, (B,), from the sums over them."""
        return np.asarray(parts[0])

    def log_likelihood_constant(self, weights: Any) -> Any:
        """Terms of the log-likelihood that do not depend on η, left out of the loss.

        ``weights`` (n, B) are in the rows of X: those that the model has no use for may have
        such terms too.
        """
        return 0.0


def stack_outcomes(outcomes: Sequence[Any], lanes: int, backend: Backend) -> Any:
    """Outcomes (n, 1) as the columns of one array, (n, lanes), zero where there are no more."""
    together = np.zeros((len(outcomes[0]), lanes))
    for b, y in enumerate(outcomes):
        together[:, b] = backend.to_host(y)[:, 0]
    return backend.asarray(together)
