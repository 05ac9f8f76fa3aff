"""Diagnostics of a case series, with thresholds and verdicts.

The method assumes that events affect neither later exposure nor the end of observation, that the
rate is constant apart from effects in the model, and that an outcome that counts once is rare
(Whitaker, Ghebremichael-Weldeselassie, Douglas, Smeeth and Farrington 2018).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, xlogy
from scipy.stats import chi2

from steropes.data.number_text import deciding, deciding_p, limit_text
from steropes.studies.diagnostics.convergence_diagnostic import convergence
from steropes.studies.diagnostics.diagnostic_catalogue import Diagnostic
from steropes.studies.formatting.released_numbers import decimals
from steropes.studies.sccs.cases.case_population import Population
from steropes.studies.sccs.cases.era_covariates import Column
from steropes.studies.sccs.cases.event_dependent_observation import CensorModel
from steropes.studies.sccs.models.detectable_ratio import minimal_detectable_ratio
from steropes.studies.sccs.models.intervals import PROBE, Intervals
from steropes.studies.sccs.models.sccs_model import CaseSeriesModel
from steropes.studies.sccs.specification.sccs_thresholds import Thresholds

__all__ = [
    "CONVERGENCE",
    "DIAGNOSTICS",
    "Diagnostics",
    "Verdict",
    "diagnose",
    "findings_of",
    "own_verdicts",
    "time_stability",
]

PASS, FAIL, NOT_EVALUATED = "PASS", "FAIL", "NOT EVALUATED"


CONVERGENCE = Diagnostic(
    "convergence", "convergence of the fits", "Converged", verdict_column="convergence_diagnostic"
)
# The other diagnostics, which are columns of R's results model.
DIAGNOSTICS = (
    Diagnostic(
        "time stability", "stability of the rate over calendar time", "Time stability, p", "above",
        "time_alpha", value="p", column="time_stability_p",
        verdict_column="time_stability_diagnostic",
    ),
    Diagnostic(
        "pre-exposure", "rate ratio just before exposure", "Before exposure",
        threshold="pre_exposure", ends=("event_exposure_lb", "event_exposure_ub"),
        verdict_column="event_exposure_diagnostic",
    ),
    Diagnostic(
        "end of observation", "rate ratio just before observation ends", "End of observation",
        threshold="end_of_observation", ends=("event_observation_lb", "event_observation_ub"),
        verdict_column="event_observation_diagnostic",
    ),
    Diagnostic(
        "rarity", "share of people with the outcome", "Share with the outcome", "at most",
        "prevalence", value="value", column="rare_outcome_prevalence",
        verdict_column="rare_outcome_diagnostic", condition="if it counts once",
    ),
    Diagnostic(
        "detectable ratio", "minimal detectable rate ratio", "Detectable ratio", "below",
        "detectable", "viewing", value="value", column="mdrr", verdict_column="mdrr_diagnostic",
    ),
    Diagnostic(
        "EASE", "expected absolute systematic error", "Systematic error", "below", "ease",
        "synthesis", value="value", column="ease", verdict_column="ease_diagnostic",
    ),
)  # fmt: skip
# Diagnostics that concern an exposure rather than the use of its controls.
OF_EXPOSURE = ("detectable ratio", "EASE")


@dataclass(frozen=True)
class Verdict:
    """The value and verdict of one diagnostic.

    Attributes
    ----------
    verdict : {"PASS", "FAIL", "NOT EVALUATED"}
    finding : str
        The result as a sentence.
    value, lower, upper : float
        The value, with its interval if it has one.
    limits : tuple of float
        The thresholds; numbers are shown with enough digits to distinguish them.
    """

    name: str
    verdict: str
    finding: str
    value: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    p: float = math.nan
    limits: tuple[float, ...] = ()


@dataclass(frozen=True)
class Diagnostics:
    """The diagnostics of one exposure of interest.

    Attributes
    ----------
    verdicts : dict
        "convergence", "time stability", "pre-exposure", "end of observation", "rarity",
        "detectable ratio" and "EASE".
    """

    covariate: str
    verdicts: dict[str, Verdict]

    @property
    def unblind_for_evidence_synthesis(self) -> bool:
        """Whether no diagnostic failed, the detectable ratio aside."""
        return all(v.verdict != FAIL for k, v in self.verdicts.items() if k != "detectable ratio")

    @property
    def unblind(self) -> bool:
        """Whether no diagnostic failed; one that was not evaluated does not count as failed."""
        return all(v.verdict != FAIL for v in self.verdicts.values())

    def table(self) -> pd.DataFrame:
        """Return one row per diagnostic."""
        rows = [vars(v) for v in self.verdicts.values()]
        return pd.DataFrame(rows).set_index("name")


def own_verdicts(diagnostics: list[Diagnostics]) -> list[str]:
    """List the diagnostics that differ between exposures of a study."""
    first = diagnostics[0].verdicts
    return [
        k for k in first if k in OF_EXPOSURE or any(d.verdicts[k] != first[k] for d in diagnostics)
    ]


def findings_of(diagnostics: list[Diagnostics]) -> list[tuple[str, str]]:
    """List verdicts and findings of the exposure, or those that several exposures share."""
    if not diagnostics:
        return []
    own = own_verdicts(diagnostics) if len(diagnostics) > 1 else []
    return [(v.verdict, v.finding) for k, v in diagnostics[0].verdicts.items() if k not in own]


def time_stability(monthly: pd.DataFrame, limit: float = 1.1) -> tuple[float, float]:
    """Compute the mean ratio of observed to expected events of a month, and test it.

    Each month's events are Poisson with a mean of x or 1/x times the expected number, with equal
    odds; x ≥ 1 is estimated by maximum likelihood, and p is that of the likelihood ratio against
    ``limit``.

    Parameters
    ----------
    monthly : DataFrame
        The result of `monthly_rates`.

    Returns
    -------
    (ratio, p) : floats
        NaN and 1 with fewer than two months; p is 1 if the ratio is below the limit.
    """
    if len(monthly) < 2:
        return math.nan, 1.0
    seen = monthly["observed"].to_numpy(float)
    mean = np.maximum(monthly["adjusted"].to_numpy(float), np.finfo(float).eps)

    constant = gammaln(seen + 1)

    def losses(log_x: NDArray) -> NDArray:
        """Return minus the log-likelihood of each log ratio."""
        means = (mean * np.exp(x)[:, None] for x in (log_x, -log_x))
        up, down = (xlogy(seen, m) - constant - m for m in means)
        return -np.logaddexp(up, down).sum(1)

    def loss(log_x: float) -> float:
        """Return minus the log-likelihood of one log ratio."""
        return float(losses(np.array([log_x]))[0])

    grid = np.linspace(0, math.log(10), 231)
    values = losses(grid)
    at = int(np.nanargmin(values))
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-10})
    best = float(found.x) if found.fun < values[at] else float(grid[at])
    edge = math.log(limit)
    if best <= edge:  # A ratio below the limit is compatible with it.
        return math.exp(best), 1.0
    return math.exp(best), float(chi2.sf(2 * (loss(edge) - loss(best)), 1))


def diagnose(
    population: Population,
    intervals: Intervals,
    model: CaseSeriesModel,
    monthly: pd.DataFrame,
    thresholds: Thresholds,
    censoring: CensorModel | None = None,
) -> list[Diagnostics]:
    """Evaluate the diagnostics of each exposure of interest."""
    fits = _convergence(model, censoring)
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
                "EASE": Verdict(
                    "EASE",
                    NOT_EVALUATED,
                    "Systematic error is unknown: there are too few negative controls.",
                ),
            }
            found.append(Diagnostics(name, verdicts))
    return found


def _convergence(model: CaseSeriesModel, censoring: CensorModel | None) -> Verdict:
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
    verdict = NOT_EVALUATED if held is None else PASS if held else FAIL
    return Verdict("convergence", verdict, finding)


def _stability(monthly: pd.DataFrame, limits: Thresholds) -> Verdict:
    """Check whether the rate is stable over calendar time."""
    ratio, p = time_stability(monthly, limits.time_ratio)
    if math.isnan(ratio):
        finding = (
            "The stability of the outcome's rate over calendar time cannot be evaluated: all time "
            "lies within one month."
        )
        return Verdict("time stability", NOT_EVALUATED, finding)
    passed = p > limits.time_alpha
    finding = stability_finding(passed, ratio, p, limits)
    return _judged("time stability", passed, finding, (limits.time_ratio,), value=ratio, p=p)


def stability_finding(passed: bool, ratio: float, p: float, limits: Thresholds) -> str:
    """Describe the stability of the rate over calendar time."""
    return (
        f"The rate of the outcome {'is' if passed else 'is not'} stable over calendar time "
        "(observed and expected events of a month differ "
        f"{deciding(ratio, limits.time_ratio)}-fold on average; p of a difference of more than "
        f"{limit_text(limits.time_ratio)}-fold: {deciding_p(p, limits.time_alpha)})."
    )


def _judged(
    name: str, passed: bool, finding: str, limits: tuple[float, ...], **numbers: float
) -> Verdict:
    """Make the verdict of a diagnostic that was evaluated."""
    return Verdict(name, PASS if passed else FAIL, finding, limits=limits, **numbers)


def _overlaps(name: str, text: str, line: pd.Series | None, bounds: tuple[float, float]) -> Verdict:
    """Check whether the interval of a rate ratio overlaps the bounds."""
    if line is None or not np.isfinite([line["lower"], line["upper"]]).any():
        return Verdict(name, NOT_EVALUATED, f"{text}: no estimate.")
    if line["interval"] != "profile":  # Limits of a shrunken estimate are not informative.
        finding = f"{text}: under the prior, without a profile interval."
        return Verdict(name, NOT_EVALUATED, finding)
    rr, low, high, p = (float(line[c]) for c in ("rr", "lower", "upper", "p"))
    passed = low <= bounds[1] and high >= bounds[0]
    finding = (
        f"{text}: rate ratio {decimals(rr)} ({deciding(low, *bounds)} to "
        f"{deciding(high, *bounds)}); the interval {'overlaps' if passed else 'does not overlap'} "
        f"{limit_text(bounds[0])} to {limit_text(bounds[1])}."
    )
    return _judged(name, passed, finding, bounds, value=rr, lower=low, upper=high, p=p)


def _pre_exposure(
    intervals: Intervals, model: CaseSeriesModel, limits: Thresholds, of: Column
) -> Verdict:
    """Evaluate the window before the same or any exposure; a failing one takes precedence."""
    text = "Events just before exposure"
    pairs = zip(intervals.names, intervals.columns, strict=True)
    before = {name: column for name, column in pairs if column.pre_exposure}
    own = [name for name, column in before.items() if column.eras == of.eras]
    found = [
        _overlaps("pre-exposure", text, model.estimates.loc[name], limits.pre_exposure)
        for name in own or before
    ]
    ranked = sorted(found, key=lambda v: (FAIL, PASS, NOT_EVALUATED).index(v.verdict))
    return ranked[0] if ranked else _overlaps("pre-exposure", text, None, limits.pre_exposure)


def _probe(model: CaseSeriesModel, limits: Thresholds) -> Verdict:
    """Evaluate the window at the end of observation."""
    line = model.estimates.loc[PROBE] if PROBE in model.estimates.index else None
    return _overlaps(
        "end of observation", "Events just before observation ends", line,
        limits.end_of_observation,
    )  # fmt: skip


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
    return _judged("rarity", passed, finding, (limits.prevalence,), value=share)


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
    return _judged("detectable ratio", passed, finding, (limits.detectable,), value=ratio)
