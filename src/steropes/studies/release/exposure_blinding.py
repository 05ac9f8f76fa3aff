"""Blinding of exposures that fail a diagnostic, unless their estimates are requested.

The rule is that of grids and of R's package (``Diagnostics.unblind``): reports of a case series
show neither the effect nor the outcomes during the time at risk, from which it follows. The tables
in R's layout contain all numbers, with the flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from steropes.studies.diagnostics.diagnostic import FAIL
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN

if TYPE_CHECKING:
    from steropes.studies.release.one_series_release import ReleasedSeries

__all__ = ["blinding_text", "hidden_covariates", "public_estimates"]


def hidden_covariates(study: ReleasedSeries) -> frozenset[str]:
    """List covariates with a hidden effect: failing exposures and their other windows.

    A window before exposure is a diagnostic and is shown.
    """
    if study.settings.unblind:
        return frozenset()
    failed = {d.covariate for d in study.release.diagnostics if not d.unblind}
    windows = study.settings.windows
    columns = dict(zip(study.intervals.names, study.intervals.columns, strict=True))
    eras = {(windows[columns[n].window].kind, i) for n in failed for i in columns[n].eras}
    other_windows = {
        name
        for name, c in columns.items()
        if c.window >= 0
        and not (c.of_interest or c.pre_exposure)
        and any((windows[c.window].kind, i) in eras for i in c.eras)
    }
    return frozenset(failed | other_windows)


def public_estimates(study: ReleasedSeries) -> pd.DataFrame:
    """Return the rate ratios for display; hidden ones have no numbers and a note.

    The reason for a missing estimate is kept; notes that all or no outcomes fell in a window are
    replaced.
    """
    table = study.release.estimates.copy()
    hidden = table.index.isin([*hidden_covariates(study)])
    there = study.estimates["log_rr"].notna().to_numpy()
    table.loc[hidden & there, "note"] = NOT_SHOWN
    table.loc[hidden, table.columns.difference(["interval", "note"])] = np.nan
    return table


def blinding_text(study: ReleasedSeries) -> str:
    """Describe what is hidden, why, and how to see it; "" if no exposure fails."""
    failed = [d for d in study.release.diagnostics if not d.unblind]
    if not failed:
        return ""
    names = dict.fromkeys(k for d in failed for k, v in d.verdicts.items() if v.verdict == FAIL)
    why, total = ", ".join(names), len(study.diagnostics)
    fail = "fails" if len(failed) == 1 else "fail"
    several = f"{len(failed):,} of {total:,} exposures {fail} a diagnostic ({why})"
    if study.settings.unblind:
        problem = several if total > 1 else f"the exposure fails a diagnostic ({why})"
        ratios = "their rate ratios" if total > 1 else "its rate ratio"
        return f"Unblinded: {problem}; {ratios} would not be shown without --unblind."
    if not study.estimates.loc[[d.covariate for d in failed], "log_rr"].notna().any():
        hidden = "the outcomes during the time at risk"
    else:
        hidden = "rate ratios" if total > 1 else "the rate ratio"
        follow = "they follow" if total > 1 else "it follows"
        hidden += f" and the outcomes during the time at risk, from which {follow}"
    because = several if total > 1 else f"the exposure fails a diagnostic ({why})"
    return (
        f"Not shown: {hidden}, because {because}. To see them, run the study again with --unblind "
        "(in Python, CaseSeriesSettings(…, unblind=True))."
    )
