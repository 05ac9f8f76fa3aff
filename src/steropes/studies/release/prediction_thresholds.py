"""Which classifications of a prediction model may be released beside tenths of its risks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.disclosure.complementary_suppression import count_ranges
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.release.prediction_counts import CASES, PEOPLE
from steropes.studies.release.prediction_people import EvaluatedPeople

__all__ = ["Strata", "separated_thresholds", "strata_of", "thresholds_beside_strata"]

HUNDREDTHS = 100  # Released thresholds have at least so large a part of the people between them.
Range = tuple[float, float]


def separated_thresholds(table: pd.DataFrame, cases: int, others: int, least: int) -> list[int]:
    """Choose thresholds with ``least`` people of both kinds between them and beyond them.

    Candidates are hundredths of the people, so that none depends on the outcome of a person.
    """
    step = max(least, (cases + others) // HUNDREDTHS)
    kept, last, candidate = [], (0, 0), 0
    counts = [f"{kind}_positive_count" for kind in ("true", "false")]
    for i, (true, false) in enumerate(table[counts].itertuples(index=False, name=None)):
        if true + false < candidate + step:
            continue
        candidate = true + false
        beyond = min(cases - true, others - false)
        if min(true - last[0], false - last[1], beyond) >= least:
            kept.append(i)
            last = (true, false)
    return kept


@dataclass(frozen=True)
class Strata:
    """Ranges of the people with, or without, the outcome in strata of the risk.

    Attributes
    ----------
    starts : ndarray, shape (n,)
        The risk above which each stratum begins, increasing.
    low, high : ndarray, shape (n,)
        The numbers for which the released ones can stand.
    hidden : ndarray of bool, shape (n,)
        Strata whose number may not be narrowed.
    total : (float, float)
        The range of the sum.
    """

    starts: NDArray
    low: NDArray
    high: NDArray
    hidden: NDArray
    total: Range

    def are_narrowed(self, above: tuple[float, Range], below: tuple[float, Range]) -> bool:
        """Check whether the numbers at or above two thresholds narrow a hidden stratum.

        Parameters
        ----------
        above, below : (float, (float, float))
            The lower and the upper threshold, and the range of the number at or above it.
        """
        (u, (low_u, high_u)), (v, (low_v, high_v)) = above, below
        ends = np.append(self.starts[1:], math.inf)
        inside = (self.starts >= u) & (ends < v) if v < math.inf else self.starts >= u
        touched = (ends >= u) & (self.starts < v)
        most = high_u - low_v - (self.low[inside].sum() - self.low)
        fewest = low_u - high_v - (self.high[touched].sum() - self.high)
        narrow = (inside & (most < self.high)) | (touched & (fewest > self.low))
        return bool((narrow & self.hidden).any())


def strata_of(
    exact: pd.DataFrame, shown: pd.DataFrame, part: EvaluatedPeople, rules: DisclosureRules
) -> tuple[Strata, Strata]:
    """Return what is known of people with and without the outcome in strata of an evaluation."""
    people, cases = exact[PEOPLE].to_numpy(), exact[CASES].to_numpy()
    known = shown[CASES].to_numpy(float)
    low, high = count_ranges(np.nan_to_num(known), rules)
    high = np.where(np.isnan(known), people, high)
    hidden = np.array([rules.small(n) or rules.small(m) for n, m in zip(cases, people - cases,
                                                                        strict=True)])  # fmt: skip
    # Strata are tenths of the people, whose number is known but for its rounding.
    share = people / max(people.sum(), 1)
    of_cases, of_others = part.ranges
    own_low = np.floor(share * (of_cases[0] + of_others[0]))
    own_high = np.ceil(share * (of_cases[1] + of_others[1]))
    starts = exact["prediction_threshold"].to_numpy(float)
    return (
        Strata(starts, low, high, hidden, of_cases),
        Strata(starts, np.maximum(own_low - high, 0), own_high - low, hidden, of_others),
    )


def thresholds_beside_strata(
    thresholds: Sequence[float],
    counts: Sequence[tuple[int, int]],
    strata: tuple[Strata, Strata],
    rules: DisclosureRules,
) -> list[int]:
    """Choose thresholds whose released counts narrow no hidden stratum, alone or with another one.

    Parameters
    ----------
    thresholds : sequence of float
        Risks, decreasing.
    counts : sequence of (int, int)
        Released numbers with and without the outcome at or above each threshold.
    strata : (Strata, Strata)
        Those with and without the outcome.
    """
    if not any(of.hidden.any() for of in strata):
        return [*range(len(thresholds))]
    kept: list[int] = []
    cuts: list[list[tuple[float, Range]]] = [
        [(-math.inf, of.total), (math.inf, (0.0, 0.0))] for of in strata
    ]
    for i, (threshold, numbers) in enumerate(zip(thresholds, counts, strict=True)):
        low, high = count_ranges(np.array(numbers, float), rules)
        new = [(float(threshold), (float(a), float(b))) for a, b in zip(low, high, strict=True)]
        if not any(
            of.are_narrowed(min(cut, other), max(cut, other))
            for of, cut, known in zip(strata, new, cuts, strict=True)
            for other in known
        ):
            kept.append(i)
            for cut, known in zip(new, cuts, strict=True):
                known.append(cut)
    return kept
