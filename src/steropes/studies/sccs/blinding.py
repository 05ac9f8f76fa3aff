"""What nobody is to see of an exposure that fails a diagnostic, unless that is asked for.

The rule is that of grids and of R's package (``Diagnostics.unblind``): whoever looks at a case
series sees neither the effect nor the outcomes of the time at risk, from which it follows. The
tables in R's layout hold every number beside the flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from steropes.studies.sccs.sccs_diagnostics import FAIL
from steropes.studies.verdicts import NOT_SHOWN

if TYPE_CHECKING:
    from steropes.studies.sccs.sccs_study import CaseSeries

__all__ = ["blinding_words", "hidden_covariates", "public_estimates"]


def hidden_covariates(study: CaseSeries) -> frozenset[str]:
    """Covariates whose effect is not shown: the exposures that fail, and other windows of them.

    A window before exposure is a diagnostic and is shown.
    """
    if study.settings.unblind:
        return frozenset()
    failed = {d.covariate for d in study.diagnostics if not d.unblind}
    windows = study.settings.windows
    columns = dict(zip(study.intervals.names, study.intervals.columns, strict=True))
    eras = {(windows[columns[n].window].kind, i) for n in failed for i in columns[n].eras}
    beside = {
        name
        for name, c in columns.items()
        if c.window >= 0
        and not (c.of_interest or c.pre_exposure)
        and any((windows[c.window].kind, i) in eras for i in c.eras)
    }
    return frozenset(failed | beside)


def public_estimates(study: CaseSeries) -> pd.DataFrame:
    """The rate ratios as they are shown; a hidden one has no numbers and says so in ``note``.

    A reason for a missing estimate stays; that all or no outcomes fell in a window goes.
    """
    table = study.release.estimates.copy()
    hidden = table.index.isin([*hidden_covariates(study)])
    there = study.estimates["log_rr"].notna().to_numpy()
    table.loc[hidden & there, "note"] = NOT_SHOWN
    table.loc[hidden, table.columns.difference(["interval", "note"])] = np.nan
    return table


def blinding_words(study: CaseSeries) -> str:
    """What is hidden, why, and how to see it; nothing where no exposure fails."""
    failed = [d for d in study.diagnostics if not d.unblind]
    if not failed:
        return ""
    names = dict.fromkeys(k for d in failed for k, v in d.verdicts.items() if v.verdict == FAIL)
    why, total = ", ".join(names), len(study.diagnostics)
    fail = "fails" if len(failed) == 1 else "fail"
    several = f"{len(failed):,} of {total:,} exposures {fail} a diagnostic ({why})"
    if study.settings.unblind:
        what = several if total > 1 else f"the exposure fails a diagnostic ({why})"
        whose = "their rate ratios" if total > 1 else "its rate ratio"
        return f"Unblinded: {what}; {whose} would not be shown without --unblind."
    if not study.estimates.loc[[d.covariate for d in failed], "log_rr"].notna().any():
        what = "the outcomes during the time at risk"
    else:
        what = "rate ratios" if total > 1 else "the rate ratio"
        follow = "they follow" if total > 1 else "it follows"
        what += f" and the outcomes during the time at risk, from which {follow}"
    because = several if total > 1 else f"the exposure fails a diagnostic ({why})"
    return (
        f"Not shown: {what}, because {because}. To see them, run the study again with --unblind "
        "(in Python, CaseSeriesSettings(…, unblind=True))."
    )
