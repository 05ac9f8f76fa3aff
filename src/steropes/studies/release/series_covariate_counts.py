"""Released counts of the covariates of case series, with the precision of their effects."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from steropes.studies.disclosure.disclosive_digit_rounding import (
    STEPS,
    effect_step,
    log_unit,
    withheld,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.effect_suppression import Secrecy
from steropes.studies.disclosure.small_cell_suppression import Bound
from steropes.studies.release.joint_series_counts import (
    SET,
    Key,
    SeriesCounts,
    Tables,
    cases_of_series,
    key_of,
    released_series_counts,
)

__all__ = ["CovariateCounts", "few_in_months", "released_covariates"]

DROP = 1.92  # Limits of 95 % are so far below the largest log likelihood.
FARTHEST = 50.0  # No limit is so far from its estimate.


@dataclass(frozen=True)
class CovariateCounts:
    """Released counts of a covariate, and the precision of its effect.

    Attributes
    ----------
    subjects, periods, observed_events, events : int or Bound
        Cases with the covariate, their outcomes, and those of them in the covariate's own time.
    secrecy : Secrecy
        Suppressed counts, and the precision of the effect.
    """

    subjects: int | Bound
    periods: int | Bound
    observed_events: int | Bound
    events: int | Bound
    secrecy: Secrecy


def released_covariates(
    exact: Tables, rules: DisclosureRules, told: SeriesCounts | None = None
) -> dict[Key, CovariateCounts]:
    """Release the counts of all covariates of all series.

    Parameters
    ----------
    told : SeriesCounts, optional
        The result of `released_series_counts` for these tables, if it is known.
    """
    told = released_series_counts(exact, rules) if told is None else told
    lines = {key_of(line): line for line in exact["covariate_count"].to_dict("records")}
    errors = {key_of(e): _error(e) for e in exact["sccs_covariate_result"].to_dict("records")}
    found = {}
    for key, line in lines.items():
        counts = told.covariates[key]
        secrecy = _secrecy(line, counts, errors.get(key, math.nan), rules)
        found[key] = CovariateCounts(**counts, secrecy=secrecy)
    return _with_common_baseline(found, lines, errors, cases_of_series(exact), rules)


def _secrecy(
    line: dict[Any, Any], counts: dict[str, int | Bound], error: float, rules: DisclosureRules
) -> Secrecy:
    """Decide with which precision the effect of a covariate may be released."""
    inside, observed = int(line["events"]), int(line["observed_events"])
    subjects, compared = int(line["subjects"]), int(line["compared_events"])
    closed = withheld(
        [(inside, observed), (min(inside, compared), max(compared, inside))], rules.least
    )
    closed |= rules.small(subjects) or rules.small(compared)

    def hidden(**exact: int) -> list[int]:
        """Select the counts that are suppressed or rounded."""
        return [n for k, n in exact.items() if rules.rounds or isinstance(counts[k], Bound)]

    events, people = hidden(events=inside, observed_events=observed), hidden(subjects=subjects)
    step = effect_step(error, rules.least, events=events, people=people)
    return Secrecy(closed, step, bool(events))


def _error(line: dict[Any, Any]) -> float:
    """Return half the width of an interval of a log ratio over 1.96, or NaN if it is infinite."""
    low, high = float(line["ci_95_lb"]), float(line["ci_95_ub"])
    if not (0 < low < math.inf and 0 < high < math.inf):
        return math.nan
    return (math.log(high) - math.log(low)) / 3.92


def _with_common_baseline(
    found: dict[Key, CovariateCounts],
    lines: dict[Key, dict[Any, Any]],
    errors: Mapping[Key, float],
    finals: dict[tuple[int, ...], dict[str, int]],
    rules: DisclosureRules,
) -> dict[Key, CovariateCounts]:
    """Round the effects of a series in which the outcomes of another covariate are suppressed.

    All covariates of a model are compared with the same remaining time. A rate ratio is a function
    of its own outcomes, the days and the outcomes of the remaining time, so that its exact digits
    reveal the outcomes of the remaining time, and hence of the window with the suppressed count.
    Estimates, limits and steps are those of the same remaining outcomes for all hidden numbers. A
    closed effect is moved to the middle of the hidden numbers, where its diagnostic is evaluated.
    """
    inside = {key: int(line["events"]) for key, line in lines.items()}
    for series in {key[:2] for key in found}:
        own = [key for key in found if key[:2] == series]
        hidden = [k for k in own if found[k].secrecy.closed or isinstance(found[k].events, Bound)]
        if not hidden:
            continue
        rest = finals.get(series, {}).get("events", 0) - sum(inside[key] for key in own)
        # The remaining outcomes if the hidden ones are in the middle of what their bounds allow.
        middle = sum(_middle(found[k], inside[k], rules.least) - inside[k] for k in hidden)
        usual = rest - middle
        step = min(log_unit(math.floor(usual), rules.least), STEPS[-1])
        for key in own:
            closed = found[key].secrecy.closed
            if hidden == [key] and not closed:
                continue
            shift, ends = 0.0, (0.0, 0.0)
            if min(rest, usual) > 0:
                n = inside[key]
                of = _middle(found[key], n, rules.least) if closed and n else n
                shift = math.log(rest / usual) + (math.log(of / n) if n else 0.0)
                exact, likely = _limits(n, rest), _limits(of, usual)
                ends = likely[0] - exact[0], likely[1] - exact[1]
            error = errors.get(key, math.nan) + (ends[1] - ends[0]) / 3.92
            counts = {n: getattr(found[key], n) for n in ("subjects", "events", "observed_events")}
            secrecy = _secrecy(lines[key], counts, error, rules)
            secrecy = replace(secrecy, step=max(secrecy.step, step), shift=shift, ends=ends)
            found[key] = replace(found[key], secrecy=secrecy)
    return found


def few_in_months(
    exact: Tables, counts: Mapping[Key, CovariateCounts], rules: DisclosureRules
) -> set[tuple[int, int]]:
    """Find the series of which a month has few outcomes on average and a window's are hidden.

    In which months the outcomes are would then depend on the hidden number, and so would the trend
    over calendar time and its diagnostic.
    """
    hidden = {k[:2] for k, c in counts.items() if c.secrecy.closed or isinstance(c.events, Bound)}
    months = exact["sccs_time_trend"].groupby(SET)["observed_outcomes"].mean()
    return {of for of in hidden if months.get(of, 0.0) < rules.least}


def _limits(inside: float, rest: float) -> tuple[float, float]:
    """Return the log limits of the ratio of two Poisson rates by profile likelihood.

    Parameters
    ----------
    inside, rest : float
        Numbers of outcomes; `rest` is that of the time of comparison and more than 0.

    Returns
    -------
    (float, float)
        Limits relative to the estimate, which do not depend on the lengths of time. Without
        outcomes inside, the upper one is relative to that of a single outcome in the other time,
        and the lower one is 0.
    """
    if inside == 0:
        return 0.0, math.log(rest * math.expm1(DROP / rest))
    share = inside / (inside + rest)
    best = inside * math.log(share) + rest * math.log1p(-share)

    def drop(by: float) -> float:
        """Return how far the log likelihood is below the limits' one."""
        at = math.log(share / (1 - share)) + by
        loss = inside * np.logaddexp(0, -at) + rest * np.logaddexp(0, at)
        return float(best + loss) - DROP

    return float(brentq(drop, -FARTHEST, 0.0)), float(brentq(drop, 0.0, FARTHEST))


def _middle(counts: CovariateCounts, inside: int, least: int) -> float:
    """Return the middle of the numbers of outcomes that a released count allows."""
    if not isinstance(counts.events, Bound):
        return inside
    return float(counts.events.limit) - least / 2
