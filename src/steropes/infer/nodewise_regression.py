"""Lasso regressions of single columns on all others, in the metric of a model's information.

With the information matrix H = X' H_η X at a fit, from which an intercept has been eliminated, and
s_k = √(H_kk / n), the regression of column j is

    γ̂ = argmin ½ (x_j − X γ)' H_η (x_j − X γ) / n + λ_j s_j Σ_k s_k |γ_k|,   γ_j = 0

(van de Geer, Bühlmann, Ritov and Dezeure 2014, eq. 7 and section 3.1, for generalised linear
models, in which H_η is diagonal). The factor s_j makes λ_j independent of the unit of x_j. It is a
penalised fit like any other, to which the solver applies its working sets and certificates; X is
not copied and no matrix over all columns exists.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..backends.backend_interface import Array
from ..errors import DataError, SeparationError, listed
from ..fit import Problem
from ..likelihoods import Likelihood
from ..likelihoods.hessian_structures import ChannelCurvature, Curvature
from ..priors import INFINITE_PENALTY
from ..solve.hessian import diagonal, eta_product
from .baseline_hazard import fitted_state
from .inference_constants import BLOCKS, NODEWISE
from .information_matrix import refuse_undetermined

__all__ = ["Nodewise", "NodewiseRegressions"]


class ColumnLikelihood(Likelihood):
    """½ (x_j − η)' H_η (x_j − η), the loss of the regression of a column on others.

    Parameters
    ----------
    target : (n_eta, 1) array
        The column, in the rows of η.
    curvature : Curvature
        H_η at the fit, with the row weights.
    like : Likelihood
        The model's likelihood, which determines rows and their order.
    """

    quadratic = True
    trust_radius = np.inf

    def __init__(self, target: np.ndarray, curvature: Curvature, like: Likelihood) -> None:
        super().__init__(like.backend)
        self.target, self._curvature, self._like = target, curvature, like
        self.n, self.order = like.n, like.order
        self.shift_invariant, self.grouped = like.shift_invariant, like.grouped
        self._product = eta_product(curvature, like.backend)

    @property
    def n_eta(self) -> int:
        """See `Likelihood.n_eta`."""
        return self._like.n_eta

    @property
    def row_of_x(self) -> np.ndarray:
        """See `Likelihood.row_of_x`."""
        return self._like.row_of_x

    def lift(self, offset: Array) -> Array:
        """See `Likelihood.lift`."""
        return self._like.lift(offset)

    def times(self, Z: np.ndarray) -> np.ndarray:
        """Compute H_η Z for Z (n_eta, B) on the host."""
        if self._product is None:
            v = np.asarray(self.backend.to_host(self._curvature.v))
            return v[:, None] * Z
        return np.column_stack([self._product(np.ascontiguousarray(z)) for z in Z.T])

    def evaluate(self, eta: Array, weights: Array) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        Z = self.backend.to_host(eta) - self.target
        R = self.times(Z)
        loss = 0.5 * np.einsum("ib,ib->b", Z, R)
        return self.backend.asarray(loss), self.backend.asarray(R)

    def loss(self, eta: Array, weights: Array) -> Array:
        """See `Likelihood.loss`."""
        return self.evaluate(eta, weights)[0]

    def curvature(self, eta: Array, weights: Array, exact: bool = False) -> Curvature:
        """See `Likelihood.curvature`."""
        return self._curvature


@dataclass(frozen=True)
class Nodewise:
    """The regression of a column on all others.

    Attributes
    ----------
    direction : (p,) array
        1 for the column and −γ̂ for the others, in X's units.
    penalty : float
        λ_j, in units of √(H_jj / n).
    norm : float
        z' H_η z of the residuals z = X direction.
    slope : float
        z' H_η x_j.
    correlation : float
        Largest correlation of z with a penalised column, in the metric H_η.
    rivals : int array
        The columns with this correlation, up to rounding.
    nonzero : int
        Number of columns with γ̂_k ≠ 0, without the unpenalised ones.
    """

    direction: np.ndarray
    penalty: float
    norm: float
    slope: float
    correlation: float
    rivals: np.ndarray
    nonzero: int

    @property
    def noise(self) -> float:
        """The noise factor τ_j (Zhang and Zhang 2014), a standard error at unit dispersion."""
        return float(np.sqrt(self.norm) / abs(self.slope))


class NodewiseRegressions:
    """Nodewise regressions of a fitted model.

    Parameters
    ----------
    beta : (p,) array
        The fitted coefficients, in X's units.
    free : (f,) int array
        Columns that the model leaves unpenalised, and so do the regressions.
    n : float
        Effective number of rows: observations, or events in survival and conditional models.
    """

    def __init__(self, problem: Problem, beta: np.ndarray, free: np.ndarray, n: float) -> None:
        self.problem, self.n, self.free = problem, n, free
        self.eta, self.weights = fitted_state(problem, beta)
        self.curvature = problem.likelihood.curvature(self.eta, self.weights, exact=True)
        if isinstance(self.curvature, ChannelCurvature):
            raise DataError(
                "Nodewise regressions need one linear predictor for each row, which pooled and "
                "multinomial models do not have. Use profiles or the bootstrap."
            )
        self._likelihood = ColumnLikelihood(np.zeros((1, 1)), self.curvature, problem.likelihood)
        self.scale = problem.design.scale
        self.information = self._informations()  # H_kk, beyond that of the intercept
        self.common = problem.common()

    def _informations(self) -> np.ndarray:
        """Compute the information on each coefficient beside the intercept, (p,), in X's units.

        The diagonal of H is computed for some columns at a time.
        """
        likelihood, design = self.problem.likelihood, self.problem.design
        out = np.empty(design.p)
        for first in range(0, design.p, BLOCKS.diagonal_columns):
            at = np.arange(first, min(first + BLOCKS.diagonal_columns, design.p))
            rows = design.by_rows(at, likelihood.order, likelihood.backend)
            out[at] = likelihood.backend.to_host(diagonal(rows, self.curvature))
        out *= self.scale * self.scale
        if self.problem.n_free:  # an intercept
            part = self._cross_products(0) ** 2 / out[0]
            part[0] = 0.0
            out = np.where(out - part > NODEWISE.min_share * out, out - part, 0.0)
        return np.maximum(out, 0.0)

    def _cross_products(self, j: int) -> np.ndarray:
        """Compute X' H_η x_j, (p,), in X's units."""
        likelihood, design = self.problem.likelihood, self.problem.design
        unit = np.zeros(design.p)
        unit[j] = 1.0
        product = self.times(self.predictor(unit)[:, None])
        if likelihood.order is not None:
            rows = np.zeros((design.n, 1))
            rows[likelihood.order] = product
            product = rows
        backend = likelihood.backend
        found = design.rmatmul(backend.asarray(product), backend)
        return np.asarray(backend.to_host(found))[:, 0] * self.scale

    def predictor(self, direction: np.ndarray) -> np.ndarray:
        """Compute X d, (n_eta,), for a direction (p,) in X's units."""
        problem = replace(self.problem, offset=None)
        backend, order = problem.likelihood.backend, problem.likelihood.order
        z = problem.design.matmul((direction * self.scale)[:, None], backend)
        return np.asarray(backend.to_host(z if order is None else z[order]))[:, 0]

    def residuals(self) -> np.ndarray:
        """Compute the derivative of the loss in η at the fit, (n_eta,)."""
        likelihood = self.problem.likelihood
        _, r = likelihood.evaluate(self.eta, self.weights)
        return np.asarray(likelihood.backend.to_host(r))[:, 0]

    def times(self, Z: np.ndarray) -> np.ndarray:
        """Compute H_η Z for Z (n_eta, L)."""
        return self._likelihood.times(Z)

    def fit(self, j: int, penalty: float | None) -> Nodewise:
        """Regress column j on the others.

        Parameters
        ----------
        penalty : float or None
            λ_j, in units of √(H_jj / n); by default it is chosen as by Zhang and Zhang (2014),
            Table 1: the largest correlation with another column is reduced to √(2 log p / n), and
            further as long as the noise factor increases by less than a quarter.

        Raises
        ------
        SeparationError
            If the other columns determine the column, or it is a copy of one of them.
        """
        path = _Path(self, j)
        if penalty is not None:
            chosen = path.at(penalty)
            self._refuse_dependent(j, chosen, NODEWISE.max_correlation)
            return chosen
        p = max(int((path.size > 0).sum()), 2)
        goal = np.sqrt(2.0 * np.log(p) / self.n)
        done: list[Nodewise] = []
        least = np.inf  # the noise factor at the goal
        largest = path.largest()
        for k in range(NODEWISE.steps):
            done.append(path.at(largest * NODEWISE.ratio**k))
            here = done[-1]
            if here.correlation <= goal:
                least = min(least, here.noise)
            enough = here.noise > (1.0 + NODEWISE.noise_increase) * least
            if enough or here.nonzero > NODEWISE.max_columns or largest == 0.0:
                break
        best, last = min(done, key=lambda x: x.correlation), done[-1]
        limit = min(max(goal, NODEWISE.max_unreached), NODEWISE.max_correlation)
        # Few columns explain a column completely if it is a sum of them; many always do.
        few = last.nonzero < 0.5 * self.n
        if few and last.norm < NODEWISE.min_residual_share * self.information[j]:
            limit = goal
        self._refuse_dependent(j, best, limit)
        reached = [x for x in done if x.correlation <= goal]
        if not reached:  # Table 1 of Zhang and Zhang: a multiple of the smallest one
            goal = (1.0 + NODEWISE.goal_increase) * min(x.correlation for x in done)
            reached = [x for x in done if x.correlation <= goal]
        least = min(x.noise for x in reached)
        within = [x for x in done if x.noise <= (1.0 + NODEWISE.noise_increase) * least]
        return min(within, key=lambda x: x.correlation)

    def _refuse_dependent(self, j: int, found: Nodewise, limit: float) -> None:
        """Refuse a column that no regression separates from others, by its smallest correlation.

        The residuals of a copy, or of a sum of few columns, keep their correlation with these under
        every penalty. The step of the debiased lasso would then move along the other columns, too.
        """
        if found.correlation <= limit:
            return
        names = self.problem.design.names
        raise SeparationError(
            f"The coefficient of {listed([names[j]])} is not identified beside "
            f"{listed([names[k] for k in found.rivals])}: its part that the other columns do not "
            f"explain still has a correlation of {found.correlation:.2f} with them, as if it were "
            "a copy or a sum. Leave such columns out, or combine them to one.",
            [names[j]],
        )


class _Path:
    """Regressions of one column under several penalties, each starting from the last one."""

    def __init__(self, of: NodewiseRegressions, j: int) -> None:
        problem, self.of, self.j = of.problem, of, j
        p = problem.design.p
        unit = np.zeros(p)
        unit[j] = 1.0
        likelihood = ColumnLikelihood(of.predictor(unit)[:, None], of.curvature, problem.likelihood)
        self.problem = replace(
            problem,
            likelihood=likelihood,
            weights=np.ones(problem.design.n),
            offset=None,
            prior=None,
            final_penalty=None,
        )
        self.size = np.sqrt(of.information / of.n)  # s_k
        self.unit = float(self.size[j])  # s_j
        self.size[np.setdiff1d(of.free, j)] = 0.0
        self.size[j] = 0.0
        self.empty = of.information <= 0
        if self.empty[j]:
            raise DataError(
                f"The data contain no information on {listed([problem.design.names[j]])}."
            )
        self.batch = self.problem.batch(common=of.common)

    def _solve(self, scaled: np.ndarray) -> np.ndarray:
        """Fit under penalties (p,) and return the coefficients."""
        l1 = scaled.copy()
        l1[self.j] = INFINITE_PENALTY
        l1[self.empty] = INFINITE_PENALTY
        fit = self.batch.solve(l1, np.zeros(len(l1)), tol=NODEWISE.tol, look="after")[0]
        if not fit.converged:
            raise DataError(
                f"The regression of {listed([self.problem.design.names[self.j]])} on the other "
                f"columns stopped with a KKT violation of {fit.optimality:.2g}; give a larger "
                "nodewise penalty."
            )
        return fit.beta

    def largest(self) -> float:
        """Return the smallest λ_j at which all penalised γ̂_k are zero, in units of √(H_jj / n)."""
        self._solve(np.where(self.size > 0, INFINITE_PENALTY, 0.0))
        some = self.size > 0
        g = np.abs(self.batch.gradients()[:, 0] * self.of.scale)
        return float(np.max(g[some] / self.size[some], initial=0.0) / self.of.n / self.unit)

    def at(self, penalty: float) -> Nodewise:
        """Fit at a value of λ_j, in units of √(H_jj / n)."""
        l1 = self.of.n * penalty * self.unit * self.size
        if penalty == 0.0:
            l2, held = np.zeros(len(l1)), np.flatnonzero(self.empty)
            l1[held] = l1[self.j] = INFINITE_PENALTY
            refuse_undetermined(self.problem, self.problem.batch(), l1, l2)
        gamma = self._solve(l1)
        g = self.batch.gradients()[:, 0] * self.of.scale  # −X' H_η z
        norm = 2.0 * float(self.batch.term.loss[0])
        slope = -float(g[self.j])
        if not (norm > 0 and slope > NODEWISE.min_share * self.of.information[self.j]):
            raise SeparationError(
                f"The other columns explain {listed([self.problem.design.names[self.j]])} "
                "completely, so that its coefficient is not identified.",
                [self.problem.design.names[self.j]],
            )
        some = self.size > 0
        sizes = self.size[some] * np.sqrt(self.of.n)
        each = np.zeros(len(g))
        each[some] = np.abs(g[some]) / sizes / np.sqrt(norm)
        correlation = float(np.max(each, initial=0.0))
        rivals = np.flatnonzero(some & (each >= NODEWISE.rival_share * correlation))
        direction = -gamma
        direction[self.j] = 1.0
        nonzero = int(np.count_nonzero(gamma[some]))
        return Nodewise(direction, penalty, norm, slope, correlation, rivals, nonzero)
