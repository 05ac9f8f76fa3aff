"""Choice and formatting of the estimates of a case series, for its page and the terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from steropes.studies.diagnostics.diagnostic import FAIL
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN, is_not_shown
from steropes.studies.disclosure.effect_suppression import WITHHELD
from steropes.studies.formatting.released_numbers import decimals, title_case
from steropes.studies.release.series_result_blinding import hidden_covariates, public_estimates
from steropes.studies.report.missing_estimates import NO_REASON, Missing

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from steropes.studies.release.one_series_release import ReleasedSeries

__all__ = [
    "interval_text",
    "missing_estimates",
    "ratio_and_interval",
    "shown_estimates",
    "unconverged_mark",
]


def shown_estimates(study: ReleasedSeries) -> list[str]:
    """Choose the covariates to display: unpenalised ones, then those with the largest effects.

    If there is room, hidden penalised ones follow, whatever their effect.
    """
    hidden = hidden_covariates(study)
    pairs = list(zip(study.intervals.names, study.intervals.columns, strict=True))
    own = [n for n, c in pairs if not c.penalized and c.window != -2]
    penalized = [n for n, c in pairs if c.penalized and c.window != -2]
    under = public_estimates(study).loc[penalized, "log_rr"]
    under = under[under.abs() > 0].sort_values(key=lambda b: -b.abs(), kind="stable")
    unseen = [n for n in penalized if n in hidden]
    return [*own, *under.index, *unseen][: max(20, len(own))]


def interval_text(study: ReleasedSeries) -> str:
    """Describe intervals that are not profile likelihood intervals; "" if there are none."""
    if not (study.estimates["interval"] == "bootstrap").any():
        return ""
    return (
        "Intervals of penalised covariates are percentiles over "
        f"{study.settings.bootstrap:,} bootstrap draws of people at a fixed variance of the prior; "
        "the others are profile likelihood intervals."
    )


def missing_estimates(study: ReleasedSeries, names: Iterable[str]) -> Missing:
    """List those of some covariates whose rate ratio is missing, with the reasons."""
    public = public_estimates(study)
    gone = [name for name in names if math.isnan(public.loc[name, "log_rr"])]
    return [(title_case(name), str(public.loc[name, "note"]) or NO_REASON) for name in gone]


def ratio_and_interval(line: pd.Series) -> tuple[str, str]:
    """Format a rate ratio of `public_estimates` and its interval, with a dash if missing.

    One that is not shown has the names of the diagnostics that it fails.
    """
    if is_not_shown(line["note"]):
        return f"not shown{line['note'].removeprefix(NOT_SHOWN)}", "–"
    if line["note"] == WITHHELD:
        return "not released", "–"
    rr = "–" if math.isnan(line["rr"]) else "∞" if math.isinf(line["rr"]) else decimals(line["rr"])
    ends = [
        "–" if math.isnan(x) else "∞" if math.isinf(x) else decimals(x)
        for x in (line["lower"], line["upper"])
    ]
    return rr, "–" if ends == ["–", "–"] else " to ".join(ends)


def unconverged_mark(study: ReleasedSeries) -> str:
    """Return the mark of an estimate whose fit did not converge, or ""."""
    missed = any(d.verdicts["convergence"].verdict == FAIL for d in study.diagnostics)
    return " (did not converge)" if missed else ""
