"""Person-time and other sums over people, which are released together with their numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from steropes.studies.disclosure.disclosive_digit_rounding import in_ratios, log_units, to_digits
from steropes.studies.disclosure.disclosure_rules import DisclosureRules

__all__ = ["released_means", "released_sums"]


def released_means(means: ArrayLike, shown: ArrayLike, rules: DisclosureRules) -> pd.Series:
    """Release means over people with the relative precision of the released numbers of people.

    Sums are weighted sums of the means of strata, so that exact means would reveal the sizes of
    strata. A mean is rounded to a step of its logarithm that hides ``least`` people.

    Parameters
    ----------
    means : array-like, shape (n,)
        Exact means.
    shown : array-like, shape (n,)
        Released numbers of people; negative or missing where they are withheld.

    Returns
    -------
    Series, shape (n,)
        Three significant digits; missing where the number of people is withheld.
    """
    x, n = pd.Series(means, dtype=float), np.asarray(shown, dtype=float)
    if rules.open:
        return x
    known = np.nan_to_num(n) >= rules.least
    steps = log_units(np.where(known, n, rules.least).astype(np.int64), rules.least)
    return pd.Series(in_ratios(x.to_numpy(), steps), x.index).where(known)


def released_sums(
    sums: ArrayLike, people: ArrayLike, shown: ArrayLike, rules: DisclosureRules
) -> pd.Series:
    """Release sums over people, such as days at risk: released people times the released mean.

    With a fixed time at risk, exact days are a multiple of the exact number of people.

    Parameters
    ----------
    sums, people : array-like, shape (n,)
        Exact sums and numbers of people.
    shown : array-like, shape (n,)
        Released numbers of people; negative or missing where they are withheld.

    Returns
    -------
    Series, shape (n,)
        Three significant digits; zero without people and missing where their number is withheld.
    """
    total, exact = pd.Series(sums, dtype=float), np.asarray(people, dtype=float)
    if rules.open:
        return total
    n = np.asarray(shown, dtype=float)
    means = released_means(total / np.where(exact > 0, exact, 1.0), n, rules)
    return pd.Series(to_digits((means * n).to_numpy(), 3), total.index).mask(n == 0, 0.0)
