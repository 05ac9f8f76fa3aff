"""Cross-validation of one variance for the models of several outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import DataError
from ..fit import Problem
from .crossvalidation import LIKELIHOOD_SCORES, CrossValidation
from .cyclops_search import CyclopsSearch
from .fold_fits_along_path import FoldsPath
from .variance_search import Progress, Selection, VariancePath

__all__ = ["SharedPath", "check_shared"]


class SharedPath(VariancePath):
    """A path of variances whose scores are sums over the outcomes.

    The sum of the held-out log-likelihoods is the held-out log-likelihood of one model with a block
    of coefficients for each outcome, so that the variance is chosen as for that model. Fold k
    consists of the k-th fold of each outcome.

    Parameters
    ----------
    cv : CrossValidation
        See `check_shared`.
    paths : sequence of FoldsPath
        A path for each outcome, with the same prior and number of folds.
    progress : callable, optional
        As in `VariancePath`.
    """

    def __init__(
        self, cv: CrossValidation, paths: Sequence[FoldsPath], progress: Progress | None = None
    ) -> None:
        super().__init__(cv, paths[0].prior, progress)
        self.paths = list(paths)
        if len({len(path.pairs) for path in paths}) > 1:
            raise DataError("the outcomes have different numbers of folds.")
        self.within = max(path.within for path in paths)
        self.selects = any(path.selects for path in paths)
        self.nothing = max(path.nothing for path in paths)

    @staticmethod
    def path(cv: CrossValidation, problem: Problem, share: int) -> FoldsPath:
        """Create the path of one of ``share`` outcomes, which divide the memory."""
        return FoldsPath(replace(cv, memory=cv.memory / share), problem, None)

    def evaluate(self, variance: float) -> tuple[np.ndarray, int, np.ndarray]:
        """Fit every outcome, and add the scores; see `VariancePath.evaluate`."""
        for number, path in enumerate(self.paths, 1):
            path.score(variance)
            self.tell(variance, number / len(self.paths))
        return (
            np.concatenate([path.solutions[variance] for path in self.paths]),
            sum(path.nonzero[variance] for path in self.paths),
            np.sum([path.scores[variance] for path in self.paths], axis=0),
        )

    def slope(self, variance: float) -> float | None:
        """Add the slopes of the outcomes' scores; None if one of them is unknown."""
        total = 0.0
        for path in self.paths:
            slope = path.slope(variance)
            if slope is None:
                return None
            total += slope
        return total

    def first(self) -> float:
        """Return the smallest first variance of the outcomes."""
        first = min(path.first() for path in self.paths)
        self.matters_to = max(path.matters_to for path in self.paths)
        return first

    def search(self) -> Selection:
        """Find the best variance; see `VariancePath.search`."""
        selection = super().search()
        for path in self.paths:
            path.short.warn()
        return selection


def check_shared(cv: object) -> CrossValidation:
    """Return a cross-validation that can choose a shared variance.

    Raises
    ------
    DataError
        The chooser is another one, or has settings that only a choice for a single outcome has.
    """
    if not isinstance(cv, CrossValidation):
        raise DataError(
            f"shared_prior=True needs cv to be a CrossValidation or a number of folds, not {cv!r}."
        )
    cv.check()
    if cv.scoring not in LIKELIHOOD_SCORES:
        raise DataError(
            "shared_prior=True adds log-likelihoods of the outcomes; leave scoring='held_out'."
        )
    if isinstance(cv.search, CyclopsSearch) or cv.compare is not None:
        raise DataError(
            "shared_prior=True chooses the variance alone: leave compare out, and give "
            "search='auto' or variances."
        )
    return cv
