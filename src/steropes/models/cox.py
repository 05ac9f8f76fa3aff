"""Cox regression: hazard ratios."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import check_strata, check_survival
from ..errors import DataError
from ..likelihoods import CoxLikelihood
from .base import PenalizedModel
from .logistic import _refuse_extras

__all__ = ["CoxRegression"]


class CoxRegression(PenalizedModel):
    """Cox's proportional hazards model with a prior on the log hazard ratios.

    Maximises the log partial likelihood minus the penalty. There is no intercept.

    Parameters
    ----------
    ties : {"efron", "breslow"}
        How tied event times are treated, default Efron's method; with weights as in R's
        ``survival::coxph``.
    prior, cv, solver, tol, max_iter, n_jobs, device, random_state, verbose
        As in `LogisticRegression`.

    Notes
    -----
    ``fit(X, y, strata=…)`` takes ``y = Surv(time, event[, entry])`` (or scikit-survival's
    structured array): a row is at risk on (entry, time]. ``strata`` gives each stratum its own
    baseline hazard.

    References
    ----------
    Cox (1972), JRSS B 34:187; Efron (1977), JASA 72:557; Therneau and Grambsch (2000).
    """

    def __init__(
        self,
        *,
        ties="efron",
        prior=None,
        cv=None,
        solver="newton",
        tol=1e-8,
        max_iter=200,
        n_jobs=None,
        device="cpu",
        random_state=None,
        verbose=0,
    ) -> None:
        super().__init__(
            prior=prior, cv=cv, solver=solver, tol=tol, max_iter=max_iter, n_jobs=n_jobs,
            device=device, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.ties = ties

    def _likelihood(self, y, n, strata, exposure, backend):
        _refuse_extras(self, exposure=exposure)
        if self.ties not in ("efron", "breslow"):
            raise DataError(f"ties must be 'efron' or 'breslow', not {self.ties!r}.")
        outcome = check_survival(y, n)
        if not outcome.event.any():
            raise DataError("y has no events; a Cox model needs at least one.")
        likelihood = CoxLikelihood(
            outcome.time, outcome.event, backend, outcome.entry, check_strata(strata, n), self.ties
        )
        return likelihood, {"fold_label": outcome.event}

    def predict(self, X: Any, offset: Any = None) -> np.ndarray:
        """Return the log hazard ratio against X = 0, (n,)."""
        return self.linear_predictor(X, offset)
