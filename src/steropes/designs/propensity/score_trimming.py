"""Trimming of people whose propensity score is not represented in the other arm."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Number, Positive, Share
from steropes.designs.values.input_checks import require_arms, require_numbers, require_weights
from steropes.errors import DataError

__all__ = ["Trim", "trim"]

Method = Literal["symmetric", "asymmetric", "reverse asymmetric"]


class Trim(Settings):
    """Rules of trimming by the propensity score, applied in the order listed here.

    Parameters
    ----------
    fraction : float, optional
        Share to cut off, by ``method``.
    method : str, default "symmetric"
        "symmetric": drop scores up to ``fraction`` and from 1 − ``fraction`` (Crump and others
        2009). "asymmetric": drop scores outside the common range of both arms, then the lowest
        ``fraction`` of the target's and the highest of the comparator's (Stürmer and others 2010).
        "reverse asymmetric": the same with the opposite ends.
    equipoise : tuple of two floats, optional
        Keep preference scores in this closed interval, such as (0.3, 0.7).
    max_weight : float, optional
        Drop people with a larger weight.

    References
    ----------
    Crump, Hotz, Imbens and Mitnik (2009), Biometrika 96:187–199. Stürmer, Rothman, Avorn and Glynn
    (2010), American Journal of Epidemiology 172:843–854.

    Examples
    --------
    >>> from steropes.designs import Trim
    >>> Trim(fraction=0.05).method
    'symmetric'
    """

    fraction: Annotated[float, Number(0, 0.5)] | None = None
    method: Method = "symmetric"
    equipoise: tuple[Share, Share] | None = None
    max_weight: Positive | None = None

    def __post_init__(self) -> None:
        """Refuse rules without effect, and bounds in the wrong order."""
        if self.equipoise is not None and self.equipoise[1] < self.equipoise[0]:
            raise DataError(f"equipoise must be (lower, upper), not {self.equipoise}")
        if self.fraction is None and self.equipoise is None and self.max_weight is None:
            raise DataError(
                "trimming needs a fraction, the bounds of equipoise, or a largest weight"
            )


def trim(
    score: ArrayLike, treated: ArrayLike, rule: Trim, weight: ArrayLike | None = None
) -> list[tuple[str, NDArray]]:
    """Determine who is left after each of the rules.

    Parameters
    ----------
    score : array_like, shape (n,)
        Propensity scores.
    treated : array_like, shape (n,)
        1 for the target arm.
    rule : Trim
        The rules.
    weight : array_like, shape (n,), optional
        Weights, for ``max_weight``.

    Returns
    -------
    list of (str, ndarray of bool)
        The text of each rule, and a mask of the people left after it.

    Examples
    --------
    >>> from steropes.designs import Trim
    >>> from steropes.designs.propensity import trim
    >>> [(text, mask)] = trim([0.02, 0.3, 0.6, 0.99], [0, 1, 0, 1], Trim(fraction=0.05))
    >>> mask.tolist()
    [False, True, True, False]
    """
    e, t = require_numbers("trimming, scores", score), require_arms(treated) == 1
    require_weights(weight, len(e))
    kept, steps = np.ones(len(e), dtype=bool), []
    if rule.fraction is not None:
        kept = kept & _by_fraction(e, t, rule.fraction, rule.method)
        steps.append(("Trimmed by PS", kept))
    if rule.equipoise is not None:
        low, high = rule.equipoise
        share = float(t[kept].mean()) if kept.any() else np.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = e / (1 - e) * (1 - share) / share
        preference = np.where(np.isinf(odds), 1.0, odds / (1 + odds))
        kept = kept & (preference >= low) & (preference <= high)
        steps.append(("Trimmed to equipoise", kept))
    if rule.max_weight is not None:
        if weight is None:
            raise DataError("trimming by weight needs weights")
        kept = kept & (np.asarray(weight) <= rule.max_weight)
        steps.append(("Trimmed by weight", kept))
    return steps


def _by_fraction(e: NDArray, t: NDArray, fraction: float, method: str) -> NDArray:
    """Apply the rule of ``fraction`` by one of the methods."""
    if method == "symmetric":
        return (e > fraction) & (e < 1 - fraction)
    if not t.any() or t.all():
        return np.zeros(len(e), dtype=bool)
    low = max(e[t].min(), e[~t].min())
    high = min(e[t].max(), e[~t].max())
    kept = (e >= low) & (e <= high)
    if not (kept & t).any() or not (kept & ~t).any():
        return kept
    ends = (fraction, 1 - fraction) if method == "asymmetric" else (1 - fraction, fraction)
    cut_t, cut_c = np.quantile(e[kept & t], ends[0]), np.quantile(e[kept & ~t], ends[1])
    if method == "asymmetric":
        return kept & np.where(t, e >= cut_t, e <= cut_c)
    return kept & np.where(t, e <= cut_t, e >= cut_c)
