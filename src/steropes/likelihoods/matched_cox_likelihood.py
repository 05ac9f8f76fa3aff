"""Breslow's and Efron's approximations to the conditional logistic likelihood."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np

from ..backends.backend_interface import Array, Backend
from .cox_likelihood import CoxLikelihood
from .cox_risk_set_sums import Ties
from .informative_strata import gather_strata, lone_rows, parts_of_strata, single_rows
from .likelihood_interface import Part

__all__ = ["MatchedCoxLikelihood"]


class MatchedCoxLikelihood(CoxLikelihood):
    """Cox's partial likelihood with one event time in each matched set, where its cases are tied.

    Sets without cases or with one row are uninformative and left out.

    Parameters
    ----------
    case : (n,) array
        0 or 1.
    strata : (n,) int array
        Codes 0 … S−1.
    ties : {"breslow", "efron"}

    Attributes
    ----------
    alone : (k,) int array
        Cases that are the only row of their set.
    """

    ccd = "cox"
    has_third_derivative = True

    def __init__(self, case: np.ndarray, strata: np.ndarray, backend: Backend, ties: Ties) -> None:
        informative = (np.bincount(strata, case) > 0) & (np.bincount(strata) > 1)
        rows, _, _ = gather_strata(strata, informative)
        rows = np.arange(len(strata)) if rows is None else rows
        time = np.ones(len(rows))
        super().__init__(time, case[rows], backend, strata=strata[rows], ties=ties)
        self.order = rows[self.order]
        self.alone = single_rows(strata, case)

    def events(self) -> np.ndarray:
        """Return 1 for the cases among the rows of the model and 0 for others, (n,)."""
        return self.event.astype(np.float64)

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """See `Likelihood.parts`."""
        assert self.order is not None
        codes = parts_of_strata(self.order, self.stratum, cuts)
        if codes is None:
            return None
        case = np.zeros(cuts[-1], np.int8)
        case[self.order] = self.event
        return [
            partial(_of_part, case[a:b], own, self.ties)
            for (a, b), own in zip(pairwise(cuts), codes, strict=True)
        ]

    def score_constant(self, w: Array) -> Array:
        """See `Likelihood.score_constant`; it removes sets with a single weighted row."""
        start = self.risk.strata_start
        lone = lone_rows(w, w * self.delta, slice(None), start, start, self.backend)
        return self.backend.column_sum(lone)

    def log_likelihood_constant(self, weights: Array) -> Array:
        """Compute −Σ w log w of the cases that are the only row of their set."""
        w, xp = weights[self.alone], self.backend.xp
        return -(w * xp.log(xp.where(w > 0, w, 1.0))).sum(axis=0)


def _of_part(
    case: np.ndarray, strata: np.ndarray, ties: Ties, backend: Backend
) -> MatchedCoxLikelihood | None:
    """Build the likelihood of some rows; None if they are uninformative."""
    return MatchedCoxLikelihood(case, strata, backend, ties) if case.any() else None
