"""Tables of tree scans of people for release, without small counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.surveillance import TreeScan
from steropes.studies.disclosure import DisclosureRules, site_rules
from steropes.studies.disclosure.complementary_suppression import withheld_counts
from steropes.studies.disclosure.disclosive_digit_rounding import smd_unit, to_digits, to_unit
from steropes.studies.release.grid_release import RARE

__all__ = ["released_cuts", "released_diagnostics", "released_people"]

# Significant digits of expected cases and of ratios.
DIGITS = 2


def released_cuts(
    scan: TreeScan, *, alpha: float = 0.05, disclosure: DisclosureRules | None = None
) -> pd.DataFrame:
    """Return the cuts of a scan without numbers from which small counts of people follow.

    Cuts contain each other, so that their counts can be subtracted: counts are rounded to
    multiples of the smallest count, and cuts with few cases are left out, as those without are. So
    are cuts whose cases or controls narrow those of others that a larger cut consists of. P-values
    and statistics are functions of exact counts, and are replaced by whether a cut is a signal. A
    cut with few controls is one if it is for all numbers that its cases and controls may be (by
    a binomial test and Bonferroni's rule), because the exact verdict would tell which are true.

    Parameters
    ----------
    scan : TreeScan
        A scan of people or counts.
    alpha : float, default 0.05
        Probability that any cut is a signal without an effect.
    disclosure : DisclosureRules, optional
        Rules of the release. Default: those of the site.

    Returns
    -------
    DataFrame
        A row per cut, signals first: ``node``, ``name`` (if there are names), ``cases``,
        ``events``, ``expected`` and ``ratio``, or ``first`` and ``last`` of windows, and
        ``signal``. If there are few controls, ``events`` is minus the smallest released count,
        and ``expected`` and ``ratio`` are missing.
        Rules that suppress nothing keep the table of the scan.
    """
    rules = site_rules() if disclosure is None else disclosure
    exact = pd.DataFrame(scan.table)
    signal = exact["p"].le(alpha).to_numpy()
    if rules.open:
        return exact.assign(signal=signal)
    found = exact[[name for name in ("node", "name") if name in exact]].copy()
    found["cases"] = [rules.coarse(n) for n in exact["cases"]]
    # A cut that is known to have cases, few as they are, would narrow the counts of others.
    known = found["cases"].ge(0).to_numpy() & ~_narrowing(scan, exact, rules)
    found, exact, signal = found[known], exact[known], signal[known]
    if "first" in exact:
        # Expected cases are a share of those of all times, which would follow.
        found = found.assign(first=exact["first"], last=exact["last"], ratio=np.nan)
    elif "events" in exact:
        controls = np.array([rules.coarse(n) for n in exact["events"] - exact["cases"]])
        share = (exact["expected"] / exact["events"]).round(DIGITS)
        events = found["cases"] + controls
        found["events"] = events.where(controls >= 0, -rules.least)
        certain = _certain_signals(found["cases"], share, scan.cuts, alpha, rules)
        signal = np.where(controls >= 0, signal, certain)
        found = _with_ratio(found, (events * share).where(controls >= 0))
    else:
        found = _with_ratio(found, exact["expected"])
    found["signal"] = signal
    # The order of exact statistics would distinguish them; names break ties instead.
    found = found.assign(text=found["node"].astype(str)).sort_values(
        ["signal", "ratio", "text"], ascending=[False, False, True]
    )
    unused = ["text", *(["ratio"] if "first" in exact else [])]
    return pd.DataFrame(found.drop(columns=unused).reset_index(drop=True))


def _certain_signals(shown: pd.Series, share: pd.Series, tests: int, alpha: float,
                     rules: DisclosureRules) -> NDArray:  # fmt: skip
    """Tell which cuts with few controls are signals whatever their exact numbers are.

    The probability of as many cases is multiplied by the number of tests, because bounds of
    replicates depend on hidden numbers.
    """
    from scipy.stats import binom

    cases = np.array(
        [next((n for n in range(1, m + 1) if rules.coarse(n) == m), m) for m in shown], dtype=int
    )
    tail = binom.sf(cases - 1, cases + rules.least - 1, share.to_numpy(dtype=float))
    return np.asarray(tests * tail <= alpha)


def _narrowing(scan: TreeScan, exact: pd.DataFrame, rules: DisclosureRules) -> NDArray:
    """Mark cuts to hide, which with others would limit a small count to few values.

    The search assumes that nobody is in two sibling cuts. People in two of them make the sums
    larger, so that the counts are limited less.
    """
    place = pd.Series(np.arange(len(exact)), pd.Index(exact["node"]))
    part, whole = (place.reindex(scan.links[name]).to_numpy() for name in ("node", "parent"))
    there = ~np.isnan(part) & ~np.isnan(whole)
    parts, totals = part[there].astype(np.int64), whole[there].astype(np.int64)
    # A cut with several larger ones belongs to each sum.
    rank = pd.Series(parts).groupby(parts).cumcount().to_numpy()
    splits = [(parts[rank == k], totals[rank == k]) for k in np.unique(rank)]
    gone = np.zeros(len(exact), bool)
    counts = [exact["cases"]] + ([exact["events"] - exact["cases"]] if "events" in exact else [])
    for of in counts:
        shown = np.array([rules.coarse(int(n)) for n in of], float)
        gone |= withheld_counts(shown, splits, rules, several=True)
    return gone


def _with_ratio(found: pd.DataFrame, expected: pd.Series) -> pd.DataFrame:
    """Add expected cases, where they are known, and the ratio."""
    ratio = (found["cases"] / expected).where(expected > 0)
    return found.assign(
        expected=to_digits(expected.to_numpy(dtype=float), DIGITS),
        ratio=to_digits(ratio.to_numpy(dtype=float), DIGITS),
    )


def released_people(attrition: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Return the people left by each rule, as multiples of the smallest count, in text.

    The rules leave overlapping groups, whose people have the outcomes of the cuts.

    Parameters
    ----------
    attrition : DataFrame
        ``rule`` and a column of numbers for each arm.
    rules : DisclosureRules
        Rules of the release.
    """
    found = attrition.copy()
    for name in found.columns.drop("rule"):
        counts = [rules.coarse(int(n)) for n in found[name]]
        found[name] = [f"<{-n}" if n < 0 else f"{n}" for n in counts]
    return found


def released_diagnostics(
    checks: pd.DataFrame, smallest: int, rules: DisclosureRules
) -> pd.DataFrame:
    """Return diagnostics with the digits that hide few people, and verdicts on these numbers.

    Parameters
    ----------
    checks : DataFrame
        ``diagnostic``, ``value`` and ``limit``. Shares must be above the limit, differences below.
    smallest : int
        People of the smaller arm.
    rules : DisclosureRules
        Rules of the release.
    """
    unit = 0.0 if rules.open else smd_unit(RARE, RARE, max(smallest, 1), rules.least)
    rows = []
    for name, value, limit in checks.itertuples(index=False):
        share = str(name).startswith("share")
        shown = rules.stepped(value, smallest) if share else to_unit(value, unit)
        passed = "not released"
        if np.isfinite(shown):
            passed = "yes" if (shown >= limit if share else shown <= limit) else "no"
        rows.append((name, shown, limit, passed))
    return pd.DataFrame(rows, columns=["diagnostic", "value", "limit", "passed"])
