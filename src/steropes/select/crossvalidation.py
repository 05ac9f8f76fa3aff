"""Cross-validation of a prior's variance along a warm-started path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np

from ..errors import DataError
from .candidates import choose_among
from .folds import Seed
from .search import Progress, Selection

__all__ = ["CrossValidation"]


@dataclass(frozen=True)
class CrossValidation:
    """How to choose the variance of a prior.

    Parameters
    ----------
    folds : int, or sequence of (train, test) pairs of row numbers
        Parts that the rows (or strata, where the likelihood conditions on them) are cut into,
        with the outcome spread evenly; or the splits of a scikit-learn splitter, whose train
        rows must be all that are not test rows.
    repeats : int
        Times that the rows are cut anew.
    search : "auto" or sequence of float
        Variances to try. ``"auto"`` walks a path from the variance at which the first
        coefficient leaves zero to beyond the best one and then refines around the best until
        the score is flat to 0.01 standard errors. Of variances whose scores are equal within
        rounding the smallest is chosen.
    scoring : {"held_out", "difference"}
        ``"held_out"``: the log-likelihood of the held-out rows by themselves, which for every
        family is a proper score of new data and for Cox's model their own partial likelihood
        (what Cyclops uses; the default). ``"difference"``: the full data's log-likelihood minus
        the training rows' (Verweij and van Houwelingen 1993), which for Cox's model compares
        held-out events with all rows at risk and is less noisy when a fold has few events. For
        models whose log-likelihood is a sum over rows the two are the same.
    random_state : int, numpy Generator or None
        Seed of the cuts; None draws a new one.
    memory : float
        Bytes that the states of the replicates may take together; replicates beyond that are
        worked on in turn.
    tol : float
        Largest KKT violation, in units of λ, of the folds' fits; the final fit uses the
        estimator's own ``tol``.

    References
    ----------
    Suchard, Simpson, Zorych, Ryan and Madigan (2013), ACM TOMACS 23:10, §4.4.
    Verweij and van Houwelingen (1993), Statistics in Medicine 12:2305–2314.
    """

    folds: int | Sequence[tuple[Any, Any]] = 10
    repeats: int = 1
    search: Literal["auto"] | Sequence[float] | np.ndarray = "auto"
    scoring: Literal["held_out", "difference"] = "held_out"
    random_state: Seed = None
    memory: float = 4e9
    tol: float = 1e-3

    def check(self) -> None:
        """Refuse settings that make no sense."""
        if isinstance(self.folds, Real):
            if not _whole(self.folds, 2):
                raise DataError(f"folds must be a whole number from 2, not {self.folds!r}.")
        elif not isinstance(self.folds, Sequence) or isinstance(self.folds, str):
            raise DataError(
                "folds must be a whole number or a list of (train, test) pairs such as "
                f"list(splitter.split(X, y)), not {self.folds!r}."
            )
        elif self.repeats != 1:
            raise DataError("repeats has no meaning where folds are given as splits.")
        if not (isinstance(self.repeats, Real) and _whole(self.repeats, 1)):
            raise DataError(f"repeats must be a whole number from 1, not {self.repeats!r}.")
        for name in ("tol", "memory"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and 0 < float(value) < np.inf):
                raise DataError(f"{name} must be positive and finite, not {value!r}.")
        if not isinstance(self.scoring, str) or self.scoring not in ("held_out", "difference"):
            raise DataError(f"scoring must be 'held_out' or 'difference', not {self.scoring!r}.")
        if isinstance(self.search, str):
            if self.search != "auto":
                raise DataError(f"search must be 'auto' or variances, not {self.search!r}.")
        else:
            try:
                values = np.asarray(self.search, np.float64)
            except (TypeError, ValueError):
                raise DataError(f"search must be variances, not {self.search!r}.") from None
            if values.ndim != 1 or len(values) == 0 or not ((values > 0) & (values < np.inf)).all():
                raise DataError(
                    "search must be a non-empty sequence of positive, finite variances."
                )

    def run(self, problem: Any, progress: Progress | None = None) -> Selection:
        """Evaluate variances for a `steropes.fit.Problem`; see `path.choose`."""
        from .path import choose

        self.check()
        return choose_among(self, problem, lambda cv, part: choose(cv, part, progress))


def _whole(x: Any, least: int) -> bool:
    return not isinstance(x, bool) and np.isfinite(x) and x == int(x) and x >= least
