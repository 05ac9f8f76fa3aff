"""Tables of tree scans of people, for release."""

from __future__ import annotations

import numpy as np
import pandas as pd

from steropes.designs.surveillance import TreeScan
from steropes.studies.disclosure import DisclosureRules, site_rules
from steropes.studies.disclosure.disclosive_digit_rounding import to_digits

__all__ = ["released_cuts"]

# Significant digits of expected cases and of ratios.
DIGITS = 2


def released_cuts(
    scan: TreeScan, *, alpha: float = 0.05, disclosure: DisclosureRules | None = None
) -> pd.DataFrame:
    """Return the cuts of a scan without numbers from which small counts of people follow.

    Cuts contain each other, so that their counts can be subtracted: counts are rounded to
    multiples of the smallest count. P-values and statistics are functions of exact counts, and
    are replaced by whether a cut is a signal.

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
        A row per cut: ``node``, ``name`` (if there are names), ``cases`` and ``events`` (a small
        count is the smallest one, negative), ``expected`` and ``ratio`` (nan with small counts),
        or ``first`` and ``last`` of windows, and ``signal``. Signals come first. Rules that
        suppress nothing keep the table of the scan.
    """
    rules = site_rules() if disclosure is None else disclosure
    exact = pd.DataFrame(scan.table)
    signal = exact["p"].le(alpha).to_numpy()
    if rules.open:
        return exact.assign(signal=signal)
    found = exact[[name for name in ("node", "name") if name in exact]].copy()
    found["cases"] = [rules.coarse(n) for n in exact["cases"]]
    known = found["cases"].ge(0).to_numpy()
    if "first" in exact:
        # Expected cases are a share of those of all times, which would follow.
        times = {name: exact[name].astype("Int64").where(known) for name in ("first", "last")}
        found = found.assign(**times, ratio=np.nan)
    elif "events" in exact:
        controls = np.array([rules.coarse(n) for n in exact["events"] - exact["cases"]])
        both = known & (controls >= 0)
        found["events"] = np.where(both, found["cases"] + controls, -rules.least)
        share = (exact["expected"] / exact["events"]).round(DIGITS)
        found = _with_ratio(found, found["events"] * share, both)
    else:
        found = _with_ratio(found, exact["expected"], known)
    found["signal"] = signal & known
    # The order of exact statistics would tell them apart; names break ties instead.
    found = found.assign(text=found["node"].astype(str)).sort_values(
        ["signal", "ratio", "text"], ascending=[False, False, True]
    )
    unused = ["text", *(["ratio"] if "first" in exact else [])]
    return pd.DataFrame(found.drop(columns=unused).reset_index(drop=True))


def _with_ratio(found: pd.DataFrame, expected: pd.Series, known: np.ndarray) -> pd.DataFrame:
    """Add expected cases and the ratio, where counts are known."""
    ratio = (found["cases"] / expected).where(known & (expected > 0))
    return found.assign(
        expected=to_digits(expected.where(known).to_numpy(dtype=float), DIGITS),
        ratio=to_digits(ratio.to_numpy(dtype=float), DIGITS),
    )
