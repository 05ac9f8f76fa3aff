"""Stratification by the propensity score."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import CovariateIds, Whole
from steropes.designs.values.input_checks import require_arms, require_numbers
from steropes.errors import DataError

__all__ = ["Stratify", "score_strata"]

Base = Literal["all", "target", "comparator"]


class Stratify(Settings):
    """Strata by quantiles of the propensity score.

    Parameters
    ----------
    strata : int, default 10
        Number of strata.
    base : "all", "target" or "comparator"
        The arm or arms that define the quantiles; the effect is that in these people.
    exact : tuple of int
        Covariate ids on which the people of a stratum must agree as well. Ids that no one in the
        comparison has are ignored, with a note.

    Examples
    --------
    >>> from steropes.designs import Stratify
    >>> Stratify(5, base="target").strata
    5
    """

    strata: Annotated[int, Whole(1, 1000)] = 10
    base: Base = "all"
    exact: CovariateIds = ()


def score_strata(
    score: ArrayLike, treated: ArrayLike, rule: Stratify, labels: ArrayLike | None = None
) -> NDArray:
    """Number each person's stratum, from 0.

    Coinciding quantiles (many people with one score) make fewer strata. A score on a boundary
    belongs to the lower stratum.

    Parameters
    ----------
    score : array_like, shape (n,)
        Propensity scores.
    treated : array_like, shape (n,)
        1 for the target arm.
    rule : Stratify
        Number of strata, and the people whose quantiles divide them.
    labels : array_like of int, shape (n,), optional
        People with different labels are in different strata.

    Returns
    -------
    ndarray of int, shape (n,)
        Stratum of each person, from 0.

    Raises
    ------
    DataError
        A score is missing, or the arm that defines the quantiles is empty.

    References
    ----------
    Rosenbaum and Rubin (1984), JASA 79:516–524.

    Examples
    --------
    >>> from steropes.designs import Stratify
    >>> from steropes.designs.propensity import score_strata
    >>> score_strata([0.1, 0.2, 0.6, 0.7], [0, 1, 0, 1], Stratify(2)).tolist()
    [0, 0, 1, 1]
    """
    e, t = require_numbers("strata, scores", score), require_arms(treated) == 1
    base = {"all": e, "target": e[t], "comparator": e[~t]}[rule.base]
    if len(base) == 0:
        raise DataError(f"strata: nobody is in the {rule.base} arm")
    limits = np.unique(np.quantile(base, np.arange(1, rule.strata) / rule.strata))
    stratum = np.searchsorted(limits, e, side="left")
    if labels is None:
        return stratum.astype(np.int64)
    both = np.column_stack((np.asarray(labels), stratum))
    return np.unique(both, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
