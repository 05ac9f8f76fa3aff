"""Conditional logistic and conditional Poisson regression: each matched set its own intercept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ..backends.face import Backend
from ..data import check_exposure, check_offset, check_response, check_strata, check_weights
from ..data.stratum_offsets import offsets_within_strata
from ..design import Design
from ..errors import DataError
from ..likelihoods import (
    ConditionalLogisticLikelihood,
    ConditionalPoissonLikelihood,
    Likelihood,
    MatchedCoxLikelihood,
)
from ..priors import Prior
from .base import PenalizedModel, Problem
from .fit_inputs import FitInputs
from .residuals import GroupedResiduals
from .setting_types import Chooser, Device, Seed, Solver

__all__ = ["ConditionalLogisticRegression", "ConditionalPoissonRegression"]


class _ConditionalModel(GroupedResiduals, PenalizedModel):
    """Models that condition on each stratum's total: no intercept, strata whole in a fold."""

    def _make_problem(
        self, design: Design, inputs: FitInputs, like: Problem | None = None
    ) -> Problem:
        if inputs.offset is not None and inputs.strata is not None:
            n = design.n
            weights, offset = check_weights(inputs.sample_weight, n), check_offset(inputs.offset, n)
            assert offset is not None
            inputs = replace(inputs, offset=offsets_within_strata(offset, inputs.strata, weights))
        return super()._make_problem(design, inputs, like)

    def _strata(self, strata: Any, n: int, what: str) -> np.ndarray:
        if strata is None:
            raise DataError(
                f"{type(self).__name__} needs strata: pass fit(X, y, strata=labels) with {what} "
                "of each row."
            )
        codes = check_strata(strata, n)
        assert codes is not None
        return codes

    def _effective_sample_size(self, problem: Problem) -> float:
        """Cases, or events: the weight of the rows in which they are."""
        assert problem.fold_label is not None
        return float(problem.weights[problem.fold_label > 0].sum())

    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return X β (+ offset), (n,): the log ratio against X = 0 in the same stratum."""
        return self.linear_predictor(X, offset)


def _folds(y: np.ndarray, strata: np.ndarray) -> dict[str, np.ndarray]:
    """Strata stay whole in a fold, and those with events are spread evenly."""
    codes = strata.astype(np.int32) if len(strata) <= np.iinfo(np.int32).max else strata
    return {"fold_label": (y > 0).astype(np.int8), "fold_together": codes}


class ConditionalLogisticRegression(_ConditionalModel):
    """Conditional logistic regression for matched sets, with a prior on the log odds ratios.

    Maximises the log-likelihood of which rows of each stratum are its cases given how many
    there are, minus the penalty. Each stratum's own intercept drops out; there is none to fit.
    Strata without cases or without controls, and single rows, say nothing and cost nothing.

    Parameters
    ----------
    method : {"exact", "efron", "breslow"}
        ``"exact"`` (default): all ways to choose the cases, by a recursion; any numbers of cases
        and controls. ``"breslow"`` and ``"efron"``: Cox's partial likelihood with one time a
        stratum and its approximations for ties, as in R's ``survival::clogit``. With one case a
        stratum the three are the same.
    prior, cv, solver, tol, max_iter, n_jobs, device, random_state, verbose
        As in `LogisticRegression`; folds keep strata whole.

    Notes
    -----
    ``fit(X, y, strata=labels)`` takes y of 0 (control) and 1 (case), or booleans. With
    ``method="exact"`` a weight belongs to a stratum, which is there so many times: weights that
    vary within a stratum are refused (a weight of zero leaves the row out). The approximations
    take weights row by row, in the numerator and in the denominator alike.

    References
    ----------
    Breslow and Day (1980), Statistical Methods in Cancer Research I, ch. 7.
    Gail, Lubin and Rubinstein (1981), Biometrika 68:703–707.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> x = np.array([[1.0], [0.0], [0.0], [1.0], [1.0], [0.0]])
    >>> m = steropes.ConditionalLogisticRegression()
    >>> m = m.fit(x, [1, 0, 1, 0, 1, 0], strata=["a", "a", "b", "b", "c", "c"])
    >>> round(float(np.exp(m.coef_[0])), 6)  # two discordant pairs to one
    2.0
    """

    def __init__(
        self,
        *,
        method: Literal["exact", "efron", "breslow"] = "exact",
        prior: Prior | None = None,
        cv: Chooser | int | None = None,
        solver: Solver = "newton",
        tol: float = 1e-8,
        max_iter: int = 200,
        n_jobs: int | None = None,
        device: Device = "cpu",
        random_state: Seed = None,
        verbose: int | bool = 0,
    ) -> None:
        super().__init__(
            prior=prior, cv=cv, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs,
            device=device, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.method = method

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, dict[str, Any]]:
        inputs.refuse_extras(self, "exposure")
        if self.method not in ("exact", "efron", "breslow"):
            raise DataError(f"method must be 'exact', 'efron' or 'breslow', not {self.method!r}.")
        y = check_response(inputs.y, design.n)
        wrong = (y != 0) & (y != 1)
        if wrong.any():
            i = int(wrong.argmax())
            raise DataError(f"y must be 1 for cases and 0 for controls; row {i} is {y[i]:g}.")
        strata = self._strata(inputs.strata, design.n, "the matched set")
        if self.method == "exact":
            return ConditionalLogisticLikelihood(y, strata, backend), _folds(y, strata)
        return MatchedCoxLikelihood(y, strata, backend, self.method), _folds(y, strata)


class ConditionalPoissonRegression(_ConditionalModel):
    """Conditional Poisson regression: counts of a stratum given their total, with a prior.

    Maximises Σ w y log[w' exp η / Σ_stratum w exp η] − penalty over η = X β + log exposure +
    offset. Each stratum's own rate drops out; there is no intercept. The estimates and standard
    errors are those of a Poisson regression with an intercept for each stratum, which it never
    has to fit. Strata without events or with one row say nothing and cost nothing.

    Parameters
    ----------
    prior, cv, solver, tol, max_iter, n_jobs, device, random_state, verbose
        As in `LogisticRegression`; folds keep strata whole.

    Attributes
    ----------
    log_likelihood_ : float
        Σ w [y η − y log Σ_stratum w exp η], the kernel of the multinomial likelihood: the
        constant log n_s! − Σ log y! of each stratum is left out, as in statsmodels.

    Notes
    -----
    ``fit(X, y, strata=labels, exposure=time)`` takes counts y ≥ 0. A weight of 2 is a row that is
    there twice, in its stratum's sum too.

    References
    ----------
    Armstrong, Gasparrini and Tobias (2014), BMC Medical Research Methodology 14:122.
    """

    def __init__(
        self,
        *,
        prior: Prior | None = None,
        cv: Chooser | int | None = None,
        solver: Solver = "newton",
        tol: float = 1e-8,
        max_iter: int = 200,
        n_jobs: int | None = None,
        device: Device = "cpu",
        random_state: Seed = None,
        verbose: int | bool = 0,
    ) -> None:
        super().__init__(
            prior=prior, cv=cv, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs,
            device=device, random_state=random_state, verbose=verbose,
        )  # fmt: skip

    _stratum_description = "the stratum"
    _likelihood_class: type[ConditionalPoissonLikelihood] = ConditionalPoissonLikelihood

    def _likelihood(
        self, inputs: FitInputs, design: Design, backend: Backend
    ) -> tuple[Likelihood, dict[str, Any]]:
        y = check_response(inputs.y, design.n, minimum=0.0)
        log_exposure = check_exposure(inputs.exposure, design.n)
        strata = self._strata(inputs.strata, design.n, self._stratum_description)
        extras = _folds(y, strata)
        if log_exposure is not None:
            extras["offset"] = log_exposure
        return self._likelihood_class(y, strata, backend), extras
