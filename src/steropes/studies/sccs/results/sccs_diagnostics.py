"""Diagnostics of a case series, with thresholds and verdicts.

The method assumes that events affect neither later exposure nor the end of observation, that the
rate is constant apart from effects in the model, and that an outcome that counts once is rare
(Whitaker, Ghebremichael-Weldeselassie, Douglas, Smeeth and Farrington 2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from steropes.data.number_formatting import deciding, deciding_p, limit_text
from steropes.designs.case_series.detectable_ratio import minimal_detectable_ratio
from steropes.designs.case_series.event_dependent_observation import CensorModel
from steropes.designs.case_series.interval_rows import PROBE, Intervals
from steropes.designs.case_series.rate_stability import time_stability
from steropes.designs.case_series.sccs_model import CaseSeriesModel
from steropes.studies.diagnostics.convergence_diagnostic import convergence
from steropes.studies.diagnostics.diagnostic import (
    FAIL,
    NOT_EVALUATED,
    PASS,
    Verdict,
    Word,
    allows,
)
from steropes.studies.diagnostics.diagnostic_catalogue import (
    SERIES,
    further_diagnostics,
)
from steropes.studies.formatting.released_numbers import decimals, shown_value, title_case
from steropes.studies.sccs.cases.case_population import Population
from steropes.studies.sccs.cases.era_covariates import Column
from steropes.studies.sccs.specification.sccs_thresholds import Thresholds

__all__ = [
    "ComparedCases",
    "Diagnostics",
    "diagnose",
    "findings_of",
    "further_finding",
    "own_verdicts",
]

OF_KEY = {d.key: d for d in SERIES}
# Diagnostics that concern an exposure rather than the use of its controls.
OF_EXPOSURE = ("detectable ratio", "EASE")


@dataclass(frozen=True, repr=False, eq=False)
class ComparedCases:
    """The cases of a case series from whom a further diagnostic of one exposure is measured.

    Attributes
    ----------
    exposure : str
        Name of the covariate of the exposure.
    population : Population
        All cases and their outcomes.
    intervals : Intervals
        The rows of the model, with the statistics of each covariate.
    monthly : DataFrame
        Observed and expected outcomes by month.
    """

    exposure: str
    population: Population
    intervals: Intervals
    monthly: pd.DataFrame


@dataclass(frozen=True)
class Diagnostics:
    """The diagnostics of one exposure of interest.

    Attributes
    ----------
    verdicts : dict
        "convergence", "time stability", "pre-exposure", "end of observation", "rarity",
        "detectable ratio", "EASE", and the keys of further diagnostics.
    """

    covariate: str
    verdicts: dict[str, Verdict]

    @property
    def unblind_for_evidence_synthesis(self) -> bool:
        """Whether no diagnostic failed, those of the power aside."""
        return allows("synthesis", ((v.guards, v.verdict) for v in self.verdicts.values()))

    @property
    def unblind(self) -> bool:
        """Whether no diagnostic failed; one that was not evaluated does not count as failed."""
        return allows("viewing", ((v.guards, v.verdict) for v in self.verdicts.values()))

    @property
    def failed(self) -> list[str]:
        """The keys of the diagnostics because of which the estimate is not shown."""
        return [k for k, v in self.verdicts.items() if v.verdict == FAIL and v.hides]

    def table(self) -> pd.DataFrame:
        """Return one row per diagnostic."""
        columns = ["verdict", "finding", "value", "lower", "upper", "p", "limits"]
        rows = {k: [getattr(v, c) for c in columns] for k, v in self.verdicts.items()}
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("name")


def own_verdicts(diagnostics: list[Diagnostics]) -> list[str]:
    """List the diagnostics that differ between exposures of a study."""
    first = diagnostics[0].verdicts
    known = OF_KEY.keys() - {*OF_EXPOSURE}
    return [
        k for k in first if k not in known or any(d.verdicts[k] != first[k] for d in diagnostics)
    ]


def findings_of(diagnostics: list[Diagnostics]) -> list[tuple[str, str]]:
    """List verdicts and findings of the exposure, or those that several exposures share."""
    if not diagnostics:
        return []
    own = own_verdicts(diagnostics) if len(diagnostics) > 1 else []
    return [(v.verdict, v.finding) for k, v in diagnostics[0].verdicts.items() if k not in own]


def diagnose(
    population: Population,
    intervals: Intervals,
    model: CaseSeriesModel,
    monthly: pd.DataFrame,
    thresholds: Thresholds,
    censoring: CensorModel | None = None,
) -> list[Diagnostics]:
    """Evaluate the diagnostics of each exposure of interest."""
    fits = _convergence(model, censoring, thresholds)
    stability, probe = _stability(monthly, thresholds), _probe(model, thresholds)
    rarity = _rarity(population, thresholds)
    found = []
    for name, column in zip(intervals.names, intervals.columns, strict=True):
        if column.of_interest:
            verdicts = {
                "convergence": fits,
                "time stability": stability,
                "pre-exposure": _pre_exposure(intervals, model, thresholds, column),
                "end of observation": probe,
                "rarity": rarity,
                "detectable ratio": _detectable(intervals, name, thresholds),
                "EASE": _judged(
                    "EASE",
                    NOT_EVALUATED,
                    "Systematic error is unknown: there are too few negative controls.",
                    thresholds,
                ),
                **_further(ComparedCases(name, population, intervals, monthly), thresholds),
            }
            found.append(Diagnostics(name, verdicts))
    return found


def _further(cases: ComparedCases, limits: Thresholds) -> dict[str, Verdict]:
    """Measure and judge the diagnostics that the specification adds."""
    found = {}
    for d in further_diagnostics(limits):
        assert d.measure is not None
        value = float(d.measure(cases))
        verdict = d.judged(d.word(value, limits), limits, value=value)
        found[d.key] = replace(verdict, finding=further_finding(verdict))
    return found


def further_finding(v: Verdict) -> str:
    """Describe a diagnostic that the specification adds."""
    if v.verdict == NOT_EVALUATED:
        return f"{title_case(v.name)}: not evaluated."
    hidden = isinstance(v.value, float) and math.isnan(v.value)
    value = "not released" if hidden else shown_value(v.value, *v.limits)
    return f"{title_case(v.name)}: {value} ({v.rule} is needed)."


def _convergence(
    model: CaseSeriesModel, censoring: CensorModel | None, limits: Thresholds
) -> Verdict:
    """Check whether all fits converged, including those of bootstrap draws."""
    fits = {
        "the case series model": model.converged if model.status == "OK" else None,
        "the censoring model": None if censoring is None else censoring.converged,
    }
    if short := model.unconverged_draws:
        fits[f"{short:,} bootstrap draw{'s' * (short > 1)}"] = False
    held, missed = convergence(**fits)
    finding = "There is no fit."
    if held is not None:
        failed = f"{missed[:1].upper()}{missed[1:]} did not converge."
        finding = "All fits converged." if held else failed
    return _judged("convergence", NOT_EVALUATED if held is None else held, finding, limits)


def _stability(monthly: pd.DataFrame, limits: Thresholds) -> Verdict:
    """Check whether the rate is stable over calendar time."""
    ratio, p = time_stability(monthly, limits.time_ratio)
    if math.isnan(ratio):
        finding = (
            "The stability of the outcome's rate over calendar time cannot be evaluated: all time "
            "lies within one month."
        )
        return _judged("time stability", NOT_EVALUATED, finding, limits)
    passed = p > limits.time_alpha
    finding = stability_finding(passed, ratio, p, limits)
    of_ratio = (limits.time_ratio,)
    return _judged("time stability", passed, finding, limits, limits=of_ratio, value=ratio, p=p)


def stability_finding(passed: bool, ratio: float, p: float, limits: Thresholds) -> str:
    """Describe the stability of the rate over calendar time."""
    return (
        f"The rate of the outcome {'is' if passed else 'is not'} stable over calendar time "
        "(observed and expected events of a month differ "
        f"{deciding(ratio, limits.time_ratio)}-fold on average; p of a difference of more than "
        f"{limit_text(limits.time_ratio)}-fold: {deciding_p(p, limits.time_alpha)})."
    )


def _judged(
    key: str, verdict: Word | bool, finding: str, thresholds: Thresholds, **found: Any
) -> Verdict:
    """Make the verdict of a diagnostic from its word, or from whether it passes."""
    word = verdict if isinstance(verdict, str) else PASS if verdict else FAIL
    return OF_KEY[key].judged(word, thresholds, finding=finding, **found)


def _overlaps(key: str, text: str, line: pd.Series | None, limits: Thresholds) -> Verdict:
    """Check whether the interval of a rate ratio overlaps the bounds."""
    if line is None or not np.isfinite([line["lower"], line["upper"]]).any():
        return _judged(key, NOT_EVALUATED, f"{text}: no estimate.", limits)
    if line["interval"] != "profile":  # Limits of a shrunken estimate are not informative.
        finding = f"{text}: under the prior, without a profile interval."
        return _judged(key, NOT_EVALUATED, finding, limits)
    bounds = OF_KEY[key].limits(limits)
    rr, low, high, p = (float(line[c]) for c in ("rr", "lower", "upper", "p"))
    passed = low <= bounds[1] and high >= bounds[0]
    finding = (
        f"{text}: rate ratio {decimals(rr)} ({deciding(low, *bounds)} to "
        f"{deciding(high, *bounds)}); the interval {'overlaps' if passed else 'does not overlap'} "
        f"{limit_text(bounds[0])} to {limit_text(bounds[1])}."
    )
    return _judged(key, passed, finding, limits, value=rr, lower=low, upper=high, p=p)


def _pre_exposure(
    intervals: Intervals, model: CaseSeriesModel, limits: Thresholds, of: Column
) -> Verdict:
    """Evaluate the window before the same or any exposure; a failing one takes precedence."""
    text = "Events just before exposure"
    pairs = zip(intervals.names, intervals.columns, strict=True)
    before = {name: column for name, column in pairs if column.pre_exposure}
    own = [name for name, column in before.items() if column.eras == of.eras]
    found = [
        _overlaps("pre-exposure", text, model.estimates.loc[name], limits) for name in own or before
    ]
    ranked = sorted(found, key=lambda v: (FAIL, PASS, NOT_EVALUATED).index(v.verdict))
    return ranked[0] if ranked else _overlaps("pre-exposure", text, None, limits)


def _probe(model: CaseSeriesModel, limits: Thresholds) -> Verdict:
    """Evaluate the window at the end of observation."""
    line = model.estimates.loc[PROBE] if PROBE in model.estimates.index else None
    return _overlaps("end of observation", "Events just before observation ends", line, limits)


def _rarity(population: Population, limits: Thresholds) -> Verdict:
    """Check whether an outcome that counts once is rare."""
    share = population.prevalence
    passed = not population.first_only or share <= limits.prevalence
    once = "counts once per person" if population.first_only else "may recur"
    percent = f"{100 * share:.2g}" if share < 0.095 else f"{100 * share:.0f}"
    finding = (
        f"The outcome {once}, and {percent}% of people have it "
        f"(limit for outcomes that count once: {limit_text(100 * limits.prevalence)}%)."
    )
    return _judged("rarity", passed, finding, limits, value=share)


def _detectable(intervals: Intervals, name: str, limits: Thresholds) -> Verdict:
    """Check whether the minimal detectable rate ratio is small enough."""
    line = intervals.statistics.loc[name]
    share = line["compared_days"] / line["compared_total"] if line["compared_total"] else 0.0
    ratio = minimal_detectable_ratio(float(share), int(line["compared_events"]))
    text = deciding(ratio, limits.detectable) if math.isfinite(ratio) else "none"
    finding = (
        f"Rate ratio that is detectable with a power of 80%: {text} "
        f"(limit {limit_text(limits.detectable)})."
    )
    passed = ratio < limits.detectable
    return _judged("detectable ratio", passed, finding, limits, value=ratio)
