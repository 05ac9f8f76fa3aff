"""Entropy balancing: weights that make means of covariates equal, or nearly equal."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.backends import host_backend
from steropes.convergence_warning import NotConvergedWarning
from steropes.data.vector_checks import check_weights
from steropes.design_matrix import Design
from steropes.designs.comparative.balance_on_demand import BalanceOnDemand
from steropes.designs.comparative.balance_table import (
    shares_of_groups,
    standard_deviations,
)
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.comparative.effective_sample_size import effective_sample_sizes
from steropes.designs.comparative.target_mean_checks import NAMED, base_within_ranges, group_name
from steropes.designs.comparative.unfitted_copy import unfitted_copy
from steropes.designs.values.argument_checks import check_real, check_whole
from steropes.designs.values.estimands import SPREAD_OF_ESTIMAND, check_estimand
from steropes.designs.values.input_checks import require_arms
from steropes.errors import DataError, listed
from steropes.fit.entropy_balancing_fit import EntropyFit, balance_by_entropy, balance_draws
from steropes.infer.bootstrap_draws import Draws
from steropes.infer.errors_with_estimated_weights import influence_through_predictor
from steropes.infer.inference_constants import BOOTSTRAP

__all__ = ["EntropyBalancing", "weights_of_draws"]


class EntropyBalancing(BalanceOnDemand):
    """Weights that balance covariates, as close to equal weights as possible.

    Of all weights with which the means of the covariates equal those of the population of the
    estimand, these have the largest entropy (Hainmueller 2012). No propensity model is needed. With
    a tolerance the means may differ by so much, which makes weights less unequal and lets tens of
    thousands of covariates take part: the optimality conditions of the dual problem with an ℓ1
    penalty are exactly |weighted mean − target mean| ≤ δ_j, so that the certificate of the optimum
    is one of balance for every covariate.

    Parameters
    ----------
    estimand : {"att", "atc", "ate"}, default "ate"
        Population of the effect: the treated, the untreated ("atc" is the same) or everybody.
    tolerance : float or mapping of str to float, default 0.0
        Largest absolute standardised difference between the groups that may remain, with the
        denominators of `balance_table`; zero is exact balance. A mapping gives the tolerances of
        some columns by name, and all others are balanced exactly. It applies to each level of a
        column of labels. Under "ate" the means of each
        group may differ from those of everybody by half of the tolerance.
    tol : float, default 1e-8
        Largest ``optimality_`` of a converged fit.
    max_iter : int, default 200
        Maximum number of Newton steps.
    n_jobs : int, optional
        Number of threads, default all cores. Results do not depend on it.

    Attributes
    ----------
    weights_ : ndarray, shape (n,)
        Weights of all people. In each group they add up to the size of the estimand's population,
        so that the treated have weight 1 under "att".
    coef_ : dict of int to ndarray, shape (p,)
        Coefficients λ of the log weights in each weighted group, by its code.
    balance_ : DataFrame
        Balance before and after weighting; see `balance_table`.
    tolerance_ : ndarray, shape (p,)
        Largest differences δ_j of a group's weighted means from the target means, in X's units.
    imbalance_ : ndarray, shape (p,)
        Largest such differences that remain.
    effective_sample_size_ : dict of str to float
        (Σw)² / Σw² of the target and of the comparator.
    optimality_ : float
        The certificate: the largest violation of the optimality conditions, computed from X. In
        units of δ_j, or of the column's weighted standard deviation over √n where δ_j is zero.
    converged_ : bool
        Whether ``optimality_`` is at or below ``tol``.
    n_iter_ : int
        Number of Newton steps.
    feature_names_ : list of str
        Names of the columns, with one for each level of a column of labels.

    See Also
    --------
    PropensityWeights : Weights by a propensity model.
    balance_table : Compare covariates under weights of any origin.

    References
    ----------
    Hainmueller (2012), Political Analysis 20:25–46. Wang and Zubizarreta (2020), Biometrika
    107:93–105 (tolerances).

    Examples
    --------
    >>> import numpy as np
    >>> from steropes.designs import EntropyBalancing
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3))
    >>> treatment = (rng.random(500) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    >>> exact = EntropyBalancing(estimand="att").fit(X, treatment)
    >>> float(exact.balance_["smd_after"].abs().max()) < 1e-8
    True
    >>> near = EntropyBalancing(estimand="att", tolerance=0.05).fit(X, treatment)
    >>> near.balance_["smd_after"].abs().round(3).tolist()
    [0.05, 0.05, 0.033]
    """

    def __init__(
        self,
        *,
        estimand: str = "ate",
        tolerance: float | Mapping[str, float] = 0.0,
        tol: float = 1e-8,
        max_iter: int = 200,
        n_jobs: int | None = None,
    ) -> None:
        self.estimand = estimand
        self.tolerance = tolerance
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    def fit(self, X: Any, treatment: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Self:
        """Compute the weights.

        Parameters
        ----------
        X : data frame, array, sparse matrix or Design, shape (n, p)
            Covariates to balance.
        treatment : array_like, shape (n,)
            1 for the target group and 0 for the comparator.
        sample_weight : array_like, shape (n,), optional
            Weights of people, such as those of a survey, from which the balancing weights depart.

        Returns
        -------
        self
            The fitted weights.

        Raises
        ------
        DataError
            If no weights have such means; the message names columns.
        """
        draft = unfitted_copy(self)
        draft._fit(X, treatment, sample_weight=sample_weight)
        self.__dict__ = draft.__dict__
        return self

    def _fit(self, X: Any, treatment: ArrayLike, *, sample_weight: ArrayLike | None = None) -> None:
        """Set the fitted attributes."""
        estimand = check_estimand(self.estimand, ("ate", "att", "atu"))
        check_real("tol", self.tol, lambda x: 0 < x < np.inf, "positive and finite, such as 1e-8")
        check_whole("max_iter", self.max_iter, 1)
        columns = CovariateColumns.of(X)
        design = columns.design
        target = require_arms(treatment, "treatment") == 1
        before = check_weights(sample_weight, design.n)
        shares = shares_of_groups(before, target, design.n)
        whose = SPREAD_OF_ESTIMAND.get(estimand, "pooled")
        spread = standard_deviations(columns, shares, whose)
        delta = self._tolerances(columns) * spread / (2 if estimand == "ate" else 1)
        population = {"att": target, "atu": ~target, "ate": np.ones(design.n, bool)}[estimand]
        toward = np.where(population, before, 0.0)
        goal = columns.moments((toward / toward.sum())[:, None]).mean[:, 0]
        weights = toward.copy()
        draft: dict[int, EntropyFit] = {}
        imbalance = np.zeros(design.p)
        for code in {"att": (0,), "atu": (1,), "ate": (0, 1)}[estimand]:
            base = np.where(target == (code == 1), before, 0.0)
            base = base_within_ranges(columns, base, goal, delta, code)
            fit = self._balance(design, base, toward, delta, code)
            own = _weights_of(fit)
            weights[target == (code == 1)] = 0.0
            weights += own * toward.sum()
            reached = columns.moments(own[:, None]).mean[:, 0]
            imbalance = np.maximum(imbalance, np.abs(reached - goal))
            draft[code] = fit
        self._check_all_columns(imbalance, delta, spread, draft, design.names)
        self._publish(draft, weights, design)
        self._toward = toward
        self.tolerance_, self.imbalance_ = delta, imbalance
        self.effective_sample_size_ = effective_sample_sizes(
            weights, target.astype(int), ("comparator", "target")
        )
        self._balance_later(
            columns, target, weights, estimand, None if sample_weight is None else before
        )

    def _tolerances(self, columns: CovariateColumns) -> NDArray:
        """Return the tolerances of all columns as standardised differences, (p,)."""
        if isinstance(self.tolerance, Mapping):
            given = np.zeros(columns.p)
            positions = {name: np.array([j]) for j, name in enumerate(columns.names)}
            positions |= columns.factors
            unknown = [name for name in self.tolerance if name not in positions]
            if unknown:
                raise DataError(f"tolerance names {listed(unknown)}, which X does not have.")
            twice = [
                columns.names[j]
                for name in columns.factors
                if name in self.tolerance
                for j in columns.factors[name]
                if columns.names[j] in self.tolerance
            ]
            if twice:
                raise DataError(
                    f"tolerance names {listed(twice)} and the whole column of labels; name the "
                    "column, or its levels."
                )
            for name, value in self.tolerance.items():
                given[positions[name]] = _tolerance(value)
        else:
            given = np.full(columns.p, _tolerance(self.tolerance))
        return given

    def _balance(
        self, design: Design, base: NDArray, toward: NDArray, delta: NDArray, code: int
    ) -> EntropyFit:
        """Solve the problem of one group; refuse one without a solution."""
        backend = host_backend(self.n_jobs)
        fit = balance_by_entropy(design, base, toward, delta, backend, self.tol, self.max_iter)
        if fit.infeasible:
            size = np.abs(fit.beta) * fit.problem.design.scale
            first = np.argsort(-size, kind="stable")[:NAMED]
            raise DataError(
                f"No weights of the {group_name(code)} give the target means of all columns"
                f"{' within the tolerance' if delta.any() else ''}: the target lies outside the "
                "convex hull of its rows, in a direction in which these columns count most: "
                f"{listed([fit.problem.names[j] for j in first])}. Raise tolerance, or leave out "
                "or merge such columns."
            )
        return fit

    def _check_all_columns(
        self,
        imbalance: NDArray,
        delta: NDArray,
        spread: NDArray,
        fits: dict[int, EntropyFit],
        names: list[str],
    ) -> None:
        """Refuse columns that were redundant in the dual problem but are not balanced."""
        converged = all(fit.optimality <= self.tol for fit in fits.values())
        off = (imbalance > delta + 1e-6 * np.where(spread > 0, spread, 1.0)) & converged
        if off.any():
            raise DataError(
                f"No weights balance {listed([names[j] for j in np.flatnonzero(off)], NAMED)}: "
                "the values in the weighted group are combinations of other columns, which the "
                "target means contradict. Raise tolerance, or leave these columns out."
            )

    def _publish(self, fits: dict[int, EntropyFit], weights: NDArray, design: Design) -> None:
        """Set the fitted attributes, and warn where a fit did not converge."""
        self._fits = fits
        self.weights_ = weights
        self.feature_names_ = list(design.names)
        self.n_features_in_ = design.p
        self.coef_ = {}
        for code, fit in fits.items():
            self.coef_[code] = np.zeros(design.p)
            self.coef_[code][fit.columns] = fit.beta
        self.optimality_ = max(fit.optimality for fit in fits.values())
        self.n_iter_ = sum(fit.n_iter for fit in fits.values())
        self.converged_ = self.optimality_ <= self.tol
        if not self.converged_:
            warnings.warn(
                f"EntropyBalancing stopped after {self.n_iter_} steps with a violation of "
                f"{self.optimality_:.2g}, above tol={self.tol:g}: the target means are at the edge "
                "of those that weights can give. Raise tolerance or max_iter.",
                NotConvergedWarning,
                stacklevel=4,
            )

    @property
    def values(self) -> NDArray:
        """The weights, as ``weight_model`` of outcome models needs them, (n,)."""
        return self.weights_.copy()

    @property
    def estimation_left_out(self) -> str:
        """Why errors cannot include the estimation of the weights; empty if they can."""
        return "balance has a tolerance" if self.tolerance_.any() else ""

    def influences(self, outcome: ArrayLike) -> NDArray:
        """Compute the influence of people on other coefficients through the weights.

        A fitted object can be passed as ``weight_model`` to ``summary``, ``confint`` and ``vcov``
        of an outcome model, whose errors then include the estimation of the weights.

        Parameters
        ----------
        outcome : array_like, shape (n, k)
            Derivatives of the other coefficients in the logarithm of each person's weight.

        Returns
        -------
        ndarray, shape (n, k)
            To be added to the influences with known weights.

        Raises
        ------
        DataError
            If there is a tolerance, under which errors do not follow from estimating equations.
        """
        if self.tolerance_.any():
            raise DataError(
                "Errors that include the estimation of weights need exact balance. With a "
                "tolerance take robust errors with the weights as known, or a bootstrap."
            )
        derivative = np.asarray(outcome, dtype=float)
        total = np.zeros_like(derivative)
        for fit in self._fits.values():
            # Log weights are η minus the logarithm of their sum in the group.
            base = fit.base[:, None] > 0
            share = np.where(base, self.weights_[:, None], 0.0)
            share /= share.sum()
            own = np.where(base, derivative, 0.0)
            own -= share * own.sum(axis=0)
            total += influence_through_predictor(fit.problem, fit.beta, own)
        return total


def _tolerance(value: Any) -> float:
    """Return a tolerance."""
    wanted = "a finite number of 0 or more, or such numbers by column"
    return check_real("tolerance", value, lambda x: 0 <= x < np.inf, wanted)


def weights_of_draws(step: EntropyBalancing, draws: Draws) -> Iterator[NDArray | None]:
    """Balance the groups of bootstrap draws, as replicates of the fitted problems.

    Tolerances are those of the fit, in units of X.

    Yields
    ------
    ndarray or None, shape (n,)
        Weights of all people, without their numbers of copies; None if the optimum of a draw is
        not certified.
    """
    found = {
        code: balance_draws(
            fit, step.tolerance_[fit.columns], draws, len(draws.seeds), max(step.tol, BOOTSTRAP.tol)
        )
        for code, fit in step._fits.items()
    }
    group = {code: fit.base > 0 for code, fit in step._fits.items()}
    for k in range(len(draws.seeds)):
        times = draws.one(k)
        total = float(times @ step._toward)
        weights = step._toward.copy()
        etas = {code: next(each) for code, each in found.items()}
        if any(eta is None for eta in etas.values()):
            yield None
            continue
        for code, eta in etas.items():
            assert eta is not None
            drawn = group[code] & (times > 0)
            own = np.zeros(len(times))
            own[drawn] = step._fits[code].base[drawn] * np.exp(eta[drawn] - eta[drawn].max())
            weights[group[code]] = own[group[code]] * total / float(times @ own)
        yield weights


def _weights_of(fit: EntropyFit) -> NDArray:
    """Return weights that sum to one, (n,)."""
    problem, base = fit.problem, fit.base
    scaled = (fit.beta * problem.design.scale)[:, None]
    eta = problem.design.matmul(scaled, problem.likelihood.backend)[:, 0]
    used = base > 0
    out = np.zeros(len(base))
    out[used] = base[used] * np.exp(eta[used] - eta[used].max())
    return np.asarray(out / out.sum())
