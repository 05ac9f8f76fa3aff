"""Blinding of the results of exposures in a case series that fail a diagnostic.

The rule is that of grids and of R's package (``Diagnostics.unblind``): reports of a case series
show neither the effect nor the outcomes during the time at risk, from which it follows. The tables
in R's layout contain all numbers, with the flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from steropes.studies.diagnostics.failing_diagnostics import not_shown
from steropes.studies.diagnostics.result_blinding import is_not_shown
from steropes.studies.disclosure.effect_suppression import WITHHELD

if TYPE_CHECKING:
    from steropes.studies.release.one_series_release import ReleasedSeries

__all__ = ["blinding_text", "hidden_covariates", "public_estimates"]


def hidden_covariates(study: ReleasedSeries) -> frozenset[str]:
    """List covariates with a hidden effect: failing exposures and their other windows.

    A window before exposure is a diagnostic and is shown.
    """
    return frozenset(_failures(study))


def _failures(study: ReleasedSeries) -> dict[str, str]:
    """Return the diagnostics that each covariate with a hidden effect fails."""
    if study.settings.unblind:
        return {}
    failed = {d.covariate: d.failed for d in study.release.diagnostics if not d.unblind}
    windows = study.settings.windows
    columns = dict(zip(study.intervals.names, study.intervals.columns, strict=True))
    of_eras: dict[tuple[str, int], list[str]] = {}
    for name, keys in failed.items():
        for i in columns[name].eras:
            of_eras.setdefault((windows[columns[name].window].kind, i), []).extend(keys)
    others: dict[str, list[str]] = {}
    for name, c in columns.items():
        if c.window >= 0 and not (c.of_interest or c.pre_exposure):
            kind = windows[c.window].kind
            own = [of_eras[kind, i] for i in c.eras if (kind, i) in of_eras]
            if own:
                others[name] = [key for keys in own for key in keys]
    return {name: ", ".join(dict.fromkeys(keys)) for name, keys in {**others, **failed}.items()}


def public_estimates(study: ReleasedSeries) -> pd.DataFrame:
    """Return the rate ratios for display; hidden ones have no numbers and a note.

    The reason for an estimate that is missing or withheld is kept; notes that all or no outcomes
    fell in a window are replaced.
    """
    table = study.release.estimates.copy()
    failures = _failures(study)
    hidden = table.index.isin([*failures])
    there = study.estimates["log_rr"].notna().to_numpy() & table["note"].ne(WITHHELD).to_numpy()
    reasons = table.index.to_series().map(failures).map(not_shown)
    table.loc[hidden & there, "note"] = reasons[hidden & there]
    table.loc[hidden, table.columns.difference(["interval", "note"])] = np.nan
    return table


def blinding_text(study: ReleasedSeries) -> str:
    """Describe which results are hidden, why, and how to see it; "" if no exposure fails."""
    failed = [d for d in study.release.diagnostics if not d.unblind]
    if not failed:
        return ""
    names = dict.fromkeys(key for d in failed for key in d.failed)
    why, total = ", ".join(names), len(study.diagnostics)
    fail = "fails" if len(failed) == 1 else "fail"
    several = f"{len(failed):,} of {total:,} exposures {fail} a diagnostic ({why})"
    if study.settings.unblind:
        problem = several if total > 1 else f"the exposure fails a diagnostic ({why})"
        ratios = "their rate ratios" if total > 1 else "its rate ratio"
        return f"Unblinded: {problem}; {ratios} would not be shown without --unblind."
    notes = public_estimates(study).loc[[d.covariate for d in failed], "note"]
    if not notes.map(is_not_shown).any():
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
