"""The search of the R package Cyclops: steps by a factor, then a weighted parabola."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Protocol

import numpy as np

from ..data.html_representations import FieldsInHtml
from ..design_matrix import Design
from ..design_matrix.column_storage import ConstantBlock, DenseBlock, SparseBlock
from ..design_matrix.design_interfaces import DesignLike
from ..errors import DataError
from ..fit import Problem

__all__ = ["CyclopsSearch", "cyclops_variance", "mean_square", "next_variance", "unpublished"]

# The following constants are those of Cyclops.

# The parabola must promise this share of the best score.
MIN_GAIN = 0.01
# At this distance in log variance the parabola's maximum counts as the best score.
NEAR_BEST = np.log(1.5)
# The first step goes up from smaller variances and down from others.
TURNING_VARIANCE = 1.0
# At smaller variances λ = √(2 / variance) overflows.
MIN_VARIANCE = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class CyclopsSearch(FieldsInHtml):
    """The automatic search of the R package Cyclops, for studies that replicate its results.

    The search multiplies or divides ``start`` by ``factor`` until the best score is between two
    others. It then goes to the maximum of a parabola in log variance through all scores, weighted
    by the inverse standard deviations of the folds' scores, until that promises less than 1 % of
    the score or is within a factor of 1.5 of the best. The choice is the maximum of the last
    parabola, even if an evaluated variance has a better score. It is evaluated as well, so that it
    appears in ``cv_results_``. A parabola without a finite maximum ends the search at the best
    variance so far. ``CrossValidation(search="auto")`` costs little more and is far more accurate.

    The rules depend on the size of the scores. As in R, scores of counts exclude −log y! and the
    number of arrangements of a stratum's events, and those of case series the logarithms of the
    intervals' lengths. ``cv_results_`` includes these constants.

    Parameters
    ----------
    start : float, optional
        First variance, R's ``startingVariance``; default ‖X‖² / (n p) as there, the share of ones
        where X is 0/1. The studies of CohortMethod set 0.01.
    factor : float
        Factor between variances until the best is between two others; default 10.
    steps : int
        Most variances, default 50.

    References
    ----------
    Genkin, Lewis and Madigan (2007), Technometrics 49:291–304 (the start).
    Suchard, Simpson, Zorych, Ryan and Madigan (2013), ACM TOMACS 23:10, §4.4.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4))
    >>> y = (X[:, 0] + rng.logistic(size=200) > 0).astype(int)
    >>> cv = steropes.CrossValidation(5, search=steropes.CyclopsSearch(0.01), random_state=1)
    >>> model = steropes.LogisticRegression(prior=steropes.Laplace(), cv=cv).fit(X, y)
    >>> model.variance_ in model.cv_results_["variance"].tolist()
    True
    """

    start: float | None = None
    factor: float = 10.0
    steps: int = 50

    def check(self) -> None:
        """Reject invalid settings.

        Raises
        ------
        DataError
            The message names the setting.
        """
        if self.start is not None and not (_number(self.start) and 0 < self.start < np.inf):
            raise DataError(f"start must be a positive variance, not {self.start!r}.")
        if not (_number(self.factor) and 1 < self.factor < np.inf):
            raise DataError(f"factor must be a finite number above 1, not {self.factor!r}.")
        if isinstance(self.steps, bool) or not (
            isinstance(self.steps, Integral) and self.steps >= 1
        ):
            raise DataError(f"steps must be a whole number from 1, not {self.steps!r}.")


def _number(x: object) -> bool:
    """Return whether an argument is a real number."""
    return isinstance(x, Real) and not isinstance(x, bool)


class ScoredPath(Protocol):
    """A path that evaluates variances; see `steropes.select.variance_search.VariancePath`."""

    scores: dict[float, np.ndarray]

    @property
    def design(self) -> DesignLike | None:
        """The columns whose density determines the first variance."""

    @property
    def counted(self) -> np.ndarray | None:
        """The rows with positive weight, or None for all."""

    @property
    def unpublished(self) -> np.ndarray | float:
        """The part of each fold's score that Cyclops omits."""

    def score(self, variance: float) -> None:
        """Evaluate a variance."""


def cyclops_variance(path: ScoredPath, settings: CyclopsSearch) -> float:
    """Return the variance with which the search ends, after evaluating it.

    Parameters
    ----------
    path : VariancePath
    """
    variance = settings.start
    variance = mean_square(path.design, path.counted) if variance is None else float(variance)
    tried: dict[float, tuple[float, float]] = {}
    for _ in range(settings.steps):
        path.score(variance)
        scores = path.scores[variance]
        if not np.isfinite(scores).all():
            raise DataError(
                f"The published search fits a parabola to the scores, and fold "
                f"{int(np.isfinite(scores).argmin())} is impossible at variance {variance:.3g} "
                "(a score of -inf): take search='auto', or look for columns or offsets of "
                "extreme size."
            )
        scores = scores - path.unpublished
        tried[variance] = float(scores.mean()), float(scores.std())
        more, variance = next_variance(tried, float(settings.factor))
        if not more or variance in tried:
            break
    path.score(variance)
    return variance


def next_variance(tried: dict[float, tuple[float, float]], factor: float) -> tuple[bool, float]:
    """Return the variance after those tried, and whether to continue from there.

    Parameters
    ----------
    tried : dict
        Mean and standard deviation of the folds' scores of each variance, in the order in which
        they were tried. The first of equal means is the best.
    """
    x = sorted(tried)
    best = max(tried, key=lambda v: tried[v][0])
    if len(x) == 1:
        return True, x[0] * factor if x[0] < TURNING_VARIANCE else x[0] / factor
    if len(x) == 2:
        return True, x[0] / factor if tried[x[0]][0] > tried[x[1]][0] else x[1] * factor
    if best == x[0]:
        return True, best / factor
    if best == x[-1]:
        return True, best * factor
    c0, c1, c2 = _parabola(x, [tried[v] for v in x])
    if not c2 < 0:
        return False, best  # There is no maximum.
    with np.errstate(over="ignore", under="ignore"):
        top = -c1 / c2 / 2
        at = float(np.exp(top))
    if not MIN_VARIANCE <= at < np.inf:
        return False, best  # Too flat: its maximum is not a finite variance.
    value, highest = c0 - c1 * c1 / c2 / 4, tried[best][0]
    gain = (value - highest) / abs(highest) if highest else 0.0
    more = gain >= MIN_GAIN and abs(top - np.log(best)) >= NEAR_BEST
    return bool(more), at


def _parabola(x: list[float], scores: list[tuple[float, float]]) -> np.ndarray:
    """Fit 1, log x and (log x)² by least squares with weights 1 / sd."""
    mean, sd = np.array(scores).T
    least = sd[sd > 0].min(initial=np.inf)
    certain = 100.0 / least if least < np.inf else 1.0
    weight = np.where(sd > 0, 1.0 / np.where(sd > 0, sd, 1.0), certain)
    A = np.vander(np.log(x), 3, increasing=True)
    root = np.sqrt(weight)
    return np.linalg.lstsq(A * root[:, None], mean * root, rcond=None)[0]


def mean_square(design: DesignLike | None, counted: np.ndarray | None = None) -> float:
    """Compute ‖X‖² / (n p) over the columns that are not constant by construction.

    ``counted`` (n,) marks the rows to use; None means all.
    """
    if not isinstance(design, Design):
        raise DataError(
            "Cyclops' search has no start of its own where X is in blocks of rows, or where "
            "effects differ by time or class; give CyclopsSearch(start=…), such as 0.01."
        )
    total, p = 0.0, 0
    for block in design.blocks:
        if isinstance(block, ConstantBlock):
            continue
        p += block.p
        if isinstance(block, DenseBlock):
            values = block.values if counted is None else block.values[counted]
            total += float((((values * block.scale) + block.center) ** 2).sum())
        elif isinstance(block, SparseBlock):
            size = np.repeat(block.scale, np.diff(block.indptr))
            square = size**2 * (block.data**2 if len(block.data) else 1.0)
            there = slice(None) if counted is None else counted[block.indices[: len(square)]]
            total += float(square[there].sum())
    if not total > 0:
        raise DataError("X is zero; Cyclops' search has no variance to begin with.")
    n = design.n if counted is None else int(counted.sum())
    return total / n / p


def unpublished(
    problem: Problem, train: Callable[[list[int]], np.ndarray], folds: int
) -> np.ndarray:
    """Compute the part of each fold's score that Cyclops omits, (folds,).

    Parameters
    ----------
    train : callable
        Takes numbers of folds and returns the row weights of their training rows, (n, b).
    """
    likelihood, n = problem.likelihood, len(problem.weights)
    offset = np.zeros(n) if problem.offset is None else problem.offset[:n]
    order = slice(None) if likelihood.order is None else likelihood.order
    asarray, host = likelihood.backend.asarray, likelihood.backend.to_host
    constants = np.empty(folds)
    for k in range(folds):
        held = problem.weights - train([k])[:, 0]
        of = (asarray(np.ascontiguousarray(x[order][:, None])) for x in (held, offset))
        constants[k] = np.ravel(host(likelihood.constant_omitted_by_cyclops(*of)))[0]
    return constants
