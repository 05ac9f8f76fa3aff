"""Released counts of case series: of all analyses of an outcome, as they can be subtracted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from steropes.studies.disclosure.complementary_suppression import (
    equal_splits,
    sum_splits,
    unnarrowed_counts,
)
from steropes.studies.disclosure.disclosive_digit_rounding import (
    STEPS,
    effect_step,
    log_unit,
    withheld,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.effect_suppression import Secrecy
from steropes.studies.disclosure.small_cell_suppression import Bound

__all__ = [
    "KEY",
    "OUTCOMES",
    "SET",
    "CovariateCounts",
    "Key",
    "few_in_months",
    "key_of",
    "released_covariates",
]

Tables = Mapping[str, pd.DataFrame]
Key = tuple[int, int, int]
SET = ["analysis_id", "exposures_outcome_set_id"]
KEY = [*SET, "covariate_id"]
DROP = 1.92  # Limits of 95 % are so far below the largest log likelihood.
FARTHEST = 50.0  # No limit is so far from its estimate.
OUTCOMES = {
    "subjects": "outcome_subjects",
    "events": "outcome_events",
    "periods": "outcome_observation_periods",
}


@dataclass(frozen=True)
class CovariateCounts:
    """Released counts of a covariate, and the precision of its effect.

    Attributes
    ----------
    subjects, periods, observed_events, events : int or Bound
        Cases with the covariate, their outcomes, and those of them in the covariate's own time.
    secrecy : Secrecy
        What is suppressed, and the precision of the effect.
    """

    subjects: int | Bound
    periods: int | Bound
    observed_events: int | Bound
    events: int | Bound
    secrecy: Secrecy


def key_of(line: Any) -> Key:
    """Return analysis, question and covariate of a row."""
    return int(line[KEY[0]]), int(line[KEY[1]]), int(line[KEY[2]])


def released_covariates(exact: Tables, rules: DisclosureRules) -> dict[Key, CovariateCounts]:
    """Release the counts of all covariates of all series.

    All cases are released, so that neither those with a covariate nor those without it may be few,
    nor the difference to the count of a window of the same exposure in another analysis. Counts
    that are the sum of others, such as those of a window and of its parts, narrow no small one.
    """
    rows = exact["covariate_count"].to_dict("records")
    lines = {key_of(line): line for line in rows}
    errors = {key_of(e): _error(e) for e in exact["sccs_covariate_result"].to_dict("records")}
    finals = _finals(exact)
    told = {key: _counts(line, finals.get(key[:2], {}), rules) for key, line in lines.items()}
    if not rules.rounds:
        for place in _exposures(exact, lines):
            for name in ("subjects", "events", "observed_events"):
                _apart(place, name, lines, told, rules)
    found = {
        key: CovariateCounts(
            **told[key], secrecy=_secrecy(line, told[key], errors.get(key, math.nan), rules)
        )
        for key, line in lines.items()
    }
    return _with_common_baseline(found, lines, errors, finals, rules)


def _exposures(exact: Tables, keys: Iterable[Key]) -> Iterable[dict[Key, str]]:
    """Return the covariates of each exposure and outcome, in all analyses, with their kinds."""
    sets = exact["sccs_exposures_outcome_set"]
    outcomes = dict(sets[[SET[1], "outcome_id"]].itertuples(index=False))
    windows = exact["sccs_covariate_analysis"]
    before = {
        (int(line["analysis_id"]), int(line["covariate_analysis_id"])): "before"
        for line in windows[windows["pre_exposure"] == 1].to_dict("records")
    }
    found: dict[tuple[Any, ...], dict[Key, str]] = {}
    lines = {key_of(line): line for line in exact["sccs_covariate"].to_dict("records")}
    for key in keys:
        line = lines.get(key, {})
        era, of = int(line.get("era_id") or 0), line.get("covariate_analysis_id")
        kind = "probe" if of is None or pd.isna(of) else before.get((key[0], int(of)), "during")
        # A window of several eras has the number 0; it belongs to the exposure of its question.
        place = (int(outcomes.get(key[1], key[1])), era or -key[1])
        found.setdefault(place, {})[key] = kind
    return found.values()


def _apart(
    place: Mapping[Key, str],
    name: str,
    lines: Mapping[Key, dict[Any, Any]],
    told: Mapping[Key, dict[str, int | Bound]],
    rules: DisclosureRules,
) -> None:
    """Suppress counts of an exposure's windows from which a small one would follow."""
    keys, exact = [*place], {key: int(lines[key][name]) for key in place}
    for k, key in enumerate(keys):
        others = [of for of in keys[:k] if of[0] != key[0] and place[of] == place[key]]
        known = [exact[of] for of in others if isinstance(told[of][name], int)]
        if isinstance(told[key][name], int):
            told[key][name] = rules.apart([exact[key]], known)[0]
    # Windows of one kind with equal counts may have the same outcomes, also if one is longer.
    splits = sum_splits([int(lines[key]["days"]) for key in keys], [*exact.values()])
    splits += equal_splits([(place[key], n) for key, n in exact.items()])
    alone = [told[key][name] for key in keys]
    for key, n in zip(
        keys, unnarrowed_counts([*exact.values()], alone, splits, rules), strict=True
    ):
        told[key][name] = n


def _counts(
    line: dict[Any, Any], final: dict[str, int], rules: DisclosureRules
) -> dict[str, int | Bound]:
    """Release the counts of a covariate, which are parts of the counts of all cases."""

    def part(name: str, of: str) -> int | Bound:
        """Release a count, as part of the count of all cases if that is known."""
        n, whole = int(line[name]), final.get(of)
        return rules.count(n) if whole is None else rules.part(n, whole)

    found = {
        "subjects": part("subjects", "subjects"),
        "periods": part("periods", "periods"),
        "observed_events": part("observed_events", "events"),
        "events": part("events", "events"),
    }
    inside, observed = int(line["events"]), int(line["observed_events"])
    # Without any outcome in its time, all observed ones are outside.
    if inside and rules.small(observed - inside):
        found["events"] = Bound(rules.least if rules.small(inside) else max(observed, rules.least))
    return found


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


def _finals(exact: Tables) -> dict[tuple[int, ...], dict[str, int]]:
    """Count the cases of each series, those that the last rule leaves."""
    return {
        (int(line[SET[0]]), int(line[SET[1]])): {k: int(line[n]) for k, n in OUTCOMES.items()}
        for line in exact["sccs_result"].to_dict("records")
    }


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
