"""Released numbers of a study of one question, for its page, files, terminal lines and ``repr``.

All of these are made from `Published` alone, so that no output shows a number that another one
hides. A cell is a number, a ``Bound`` on it, or None where even a bound would disclose too much.
The tables of the study itself are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steropes.studies.comparative.sensitivity_analyses import COUNTS, e_values
from steropes.studies.database.data_notes import published_notes
from steropes.studies.diagnostics.result_blinding import redacted_study, without_lone_crude
from steropes.studies.diagnostics.study_verdicts import Judged, judge
from steropes.studies.disclosure.cells import Bound, share_unit
from steropes.studies.disclosure.curves import coarse_curve
from steropes.studies.disclosure.effect_secrecy import WITHHELD, rounded_effect, secrecy_of
from steropes.studies.disclosure.rounding import (
    Effect,
    log_unit,
    significant,
    smd_unit,
    to_unit,
    whole_days,
)
from steropes.studies.disclosure.rules import DisclosureRules
from steropes.studies.outcomes.e_values import is_common
from steropes.studies.outcomes.outcome_summaries import informative_events
from steropes.studies.report.score_density import density

if TYPE_CHECKING:
    from steropes.data.kaplan_meier import KaplanMeier
    from steropes.studies.comparative.one_question import ComparativeStudy

__all__ = ["WITHHELD", "Published", "publish", "published_at_risk"]

ARMS = {"target": 1, "comparator": 0}
CODES = {"crude": "ate", "matched": "atm", "matched, stratified": "atm"}  # estimands
WHEN = {"before": "all", "after": "matched"}
# The numbers of an estimate, by their columns in the tables of grids.
COLUMNS = {
    "hr": "rr",
    "lower": "ci_95_lb",
    "upper": "ci_95_ub",
    "p": "p",
    "log_hr": "log_rr",
    "se": "se_log_rr",
}
NUMBERS = tuple(COLUMNS)


@dataclass(frozen=True)
class Published:
    """The publishable tables of a study, as lists of dicts.

    Attributes
    ----------
    attrition : list of dict
        ``rule``, and for each arm people left and dropped; the last rule is the matching.
    rates : list of dict
        As ``ComparativeStudy.rates``.
    hazard_ratios : list of dict
        As ``ComparativeStudy.hazard_ratios``, and the code of the ``estimand``.
    balance : list of dict
        As ``ComparativeStudy.balance``. A difference is None where an arm has too few people.
    curves : dict
        Kaplan–Meier curves whose every step holds enough events, at times that no single person
        sets; an arm with too few is absent.
    pairs, people : int or Bound
    detectable : float or None
    follow_up : list of dict
        Quantiles of the days of each arm that has enough people: ``analysis``, ``arm``, ``p10``,
        ``p25``, ``p50``, ``p75``, ``p90``.
    adjustments : list of dict
        As ``Beside.adjustments``.
    proportional_p : float
        As ``Beside.proportional_p``.
    e_value : (float, float)
        Of the main hazard ratio, and of its limit that is nearer to one; missing where the number
        of events is hidden.
    common : bool
        Whether the E-values are by the form for common outcomes.
    other_draws : tuple of float
        Hazard ratios of other draws among equal scores.
    verdicts : list of Judged
        All diagnostics.
    rules : DisclosureRules
        What has been applied.
    largest : dict
        Largest standardised difference "before" and "after" matching; None where there is none,
        and a bound where rounding would put it on the other side of its threshold.
    scores : dict
        Of the propensity model: ``auc``, ``variance``, ``coefficients``, ``caliper_logit``,
        ``cross_validation``, ``preference`` (densities); empty if there is none. Unless the rules
        are open, scores of ``cross_validation`` are relative to the best one, since a sum over
        people tells how many they are, and a coefficient is missing where few people have the
        covariate.
    tied : float, Bound or None
        Share of people whose score others have too.
    distinct : int or None
        Distinct scores; about so many where nearly everybody has one of their own.
    data_notes : list of dict
        Notes on the database; see `published_notes`.
    blinded : bool
        Whether the estimate is hidden, because a diagnostic fails.
    """

    attrition: list[dict[str, Any]]
    rates: list[dict[str, Any]]
    hazard_ratios: list[dict[str, Any]]
    balance: list[dict[str, Any]]
    curves: dict[str, KaplanMeier]
    pairs: int | Bound
    people: int | Bound
    detectable: float | None
    follow_up: list[dict[str, Any]]
    adjustments: list[dict[str, Any]]
    proportional_p: float
    e_value: tuple[float, float]
    common: bool
    other_draws: tuple[float, ...]
    verdicts: list[Judged]
    rules: DisclosureRules = field(default_factory=DisclosureRules)
    largest: dict[str, float | Bound | None] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    tied: float | Bound | None = None
    distinct: int | None = None
    data_notes: list[dict[str, Any]] = field(default_factory=list)
    blinded: bool = False

    @property
    def failed(self) -> list[Judged]:
        """Failed diagnostics that hide the estimate."""
        return [v for v in self.verdicts if v.hides and v.verdict == "FAIL"]

    def judged(self, key: str) -> Judged:
        """Return the diagnostic with a key."""
        return next(v for v in self.verdicts if v.key == key)

    def main_line(self) -> dict[str, Any]:
        """Return the main hazard ratio; see `main_line`."""
        return main_line(self.hazard_ratios)

    def count(self, analysis: str, arm: str, what: str) -> Any:
        """Return a cell of ``rates``."""
        return line_of(self.rates, analysis, arm)[what]


def publish(study: ComparativeStudy) -> Published:
    """Release a study by its rules, without its estimate where a diagnostic fails.

    A crude estimate is shown only with an adjusted one. ``settings.unblind`` keeps estimates that
    fail a diagnostic, but none that would reveal a count.
    """
    everything = _released(study)
    shown = everything if study.visible else redacted_study(everything)
    return shown if study.settings.unblind else without_lone_crude(shown)


def line_of(rates: list[dict[str, Any]], analysis: str, arm: str) -> dict[str, Any]:
    """Return the line of an analysis and an arm."""
    return next(line for line in rates if (line["analysis"], line["arm"]) == (analysis, arm))


def main_line(hazard_ratios: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the hazard ratio within pairs, or among the matched if that is missing."""
    lines = {line["analysis"]: line for line in hazard_ratios}
    line = lines["matched, stratified"]
    return lines["matched"] if line["note"] else line


def _released(study: ComparativeStudy) -> Published:
    """Compute all released numbers of a study by its rules."""
    rules = study.rules
    done = [study.pairs] if study.matching_done else []
    left = {arm: rules.chain([*study.attrition[arm], *done]) for arm in ARMS}
    final = len(study.attrition) - 1
    rates = _rates(study, {arm: left[arm][final] for arm in ARMS})
    hazards = _hazard_ratios(study, rates)
    events = next((h["events"] for h in hazards if h["analysis"] == "matched"), 0)
    balance = _balance(study)
    detectable = None if isinstance(events, Bound) else _few_digits(study, study.detectable)
    around = study.beside
    main = main_line(hazards)
    common = is_common(study.matched)
    exact = {arm: int(study.rates.loc[("matched", arm), "events"]) for arm in ARMS}
    verdicts = judge(
        study,
        {b["covariate"] for b in balance if b["smd_after"] is not None},
        detectable,
        line_of(rates, "matched", min(ARMS, key=exact.__getitem__))["events"],
    )
    largest: dict[str, float | Bound | None] = {**largest_differences(study)}
    if study.settings.thresholds.balance_p is None:
        largest["after"] = next(v.value for v in verdicts if v.key == "balance")
    kept = not main["note"] or main["note"] != WITHHELD
    return Published(
        attrition=_attrition(study, left),
        rates=rates,
        hazard_ratios=hazards,
        balance=balance,
        curves=_curves(study, rates),
        pairs=rules.part(study.pairs, study.pairs),
        people=_total(study, [left[arm][final] for arm in ARMS], len(study.people)),
        detectable=detectable,
        follow_up=_follow_up(study),
        adjustments=[] if around is None else _adjustments(study, rates),
        proportional_p=math.nan
        if around is None or not kept
        else _few_digits(study, around.proportional_p, 2),
        e_value=(math.nan, math.nan)
        if isinstance(events, Bound)
        else e_values(main["hr"], main["lower"], main["upper"], common),
        common=common and not isinstance(events, Bound),
        other_draws=() if study.ties is None or not kept else _draws(study),
        distinct=None if study.ties is None else _distinct(study),
        verdicts=verdicts,
        rules=rules,
        largest=largest,
        scores=_scores(study),
        tied=None
        if study.ties is None
        else rules.fraction(round(study.ties.share * len(study.people)), len(study.people)),
        data_notes=published_notes(study.data_notes, rules),
    )


def _few_digits(study: ComparativeStudy, x: float, digits: int = 3) -> float:
    """Round to some significant digits, unless everything is released."""
    return x if study.rules.open else significant(x, digits)


def _draws(study: ComparativeStudy) -> tuple[float, ...]:
    """Round the hazard ratios of other draws, since within pairs they are ratios of counts."""
    assert study.ties is not None
    if study.rules.open:
        return tuple(study.ties.hazard_ratios)
    people = study.matched
    inside = informative_events(
        people["time"], people["event"], people["treated"], people["matched_set"].to_numpy()
    )
    unit = log_unit(min(inside), study.rules.least)
    logs = [to_unit(math.log(x), unit) for x in study.ties.hazard_ratios if 0 < x < math.inf]
    return tuple(significant(math.exp(x)) for x in logs if math.isfinite(x))


def _distinct(study: ComparativeStudy) -> int:
    """Return the number of distinct scores, rounded if it exceeds half the number of people."""
    assert study.ties is not None
    found = study.ties.distinct
    if study.rules.open or 2 * found <= len(study.people):
        return found
    return int(to_unit(significant(found, 2), study.rules.least))


def _total(study: ComparativeStudy, parts: list[int | Bound], exact: int) -> int | Bound:
    """Return a released total, exact or rounded, or bounded if one of its parts is."""
    from steropes.studies.disclosure.cells import total

    if study.rules.rounds and not any(isinstance(p, Bound) for p in parts):
        return study.rules.rounded(exact)
    return total(parts)


def _curves(study: ComparativeStudy, rates: list[dict[str, Any]]) -> dict[str, KaplanMeier]:
    """Return coarse curves of the arms with a released number of events, the sum of the steps."""
    found = {}
    for arm, curve in study.curves().items():
        if isinstance(line_of(rates, "matched", arm)["events"], int):
            coarse = coarse_curve(curve, study.rules.least)
            if coarse is not None:
                found[arm] = coarse
    return found


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts."""
    return [{str(k): v for k, v in line.items()} for line in table.to_dict("records")]


def _follow_up(study: ComparativeStudy) -> list[dict[str, Any]]:
    """Return quantiles of follow-up in whole days, for arms with enough people.

    A tenth of the arm must be a large enough group, since the outer quantiles are the 10th and 90th
    percentiles.
    """
    if study.beside is None:
        return []
    least = 10 * max(study.rules.least, 1)
    return [
        {
            name: whole_days(value) if isinstance(value, float) and not study.rules.open else value
            for name, value in line.items()
        }
        for line in _records(study.beside.follow_up)
        if int(study.rates.loc[(line["analysis"], line["arm"]), "people"]) >= least
    ]


def _attrition(study: ComparativeStudy, left: Mapping[str, list]) -> list[dict[str, Any]]:
    """Return the released numbers of people who remain after each rule, and who were dropped."""
    rules = study.rules
    named = [*study.attrition["rule"], *(["in a matched pair"] if study.matching_done else [])]
    exact = {arm: [*study.attrition[arm], study.pairs] for arm in ARMS}
    lines = []
    for k, rule in enumerate(named):
        line: dict[str, Any] = {"rule": rule}
        for arm in ARMS:
            dropped = int(exact[arm][k - 1] - exact[arm][k]) if k else 0
            ends = left[arm][max(k - 1, 0) : k + 1]
            known = all(isinstance(n, int) for n in ends)
            if rules.small(dropped):
                cell: Any = Bound(rules.least)
            elif rules.rounds and known:
                cell = ends[0] - ends[-1]
                cell = None if rules.small(cell) else cell  # of more people who were rounded
            else:
                cell = dropped if known or dropped == 0 else None
            line |= {arm: left[arm][k], f"{arm}_dropped": cell}
        lines.append(line)
    return lines


def _rates(study: ComparativeStudy, everybody: Mapping[str, int | Bound]) -> list[dict[str, Any]]:
    """Return the released people, person-years, events and rates of each analysis and arm."""
    rules = study.rules
    events = {arm: _events(study, arm) for arm in ARMS}
    lines = []
    for (analysis, arm), exact in study.rates.iterrows():
        line = {"analysis": analysis, "arm": arm, **exact.to_dict()}
        people = int(exact["people"])
        line["people"] = everybody[arm] if analysis == "all" else rules.part(people, people)
        line["events"] = events[arm][analysis]
        hidden = isinstance(line["events"], Bound)
        if isinstance(line["people"], Bound) or (rules.rounds and hidden):
            line["person_years"] = None
        elif not rules.open:
            line["person_years"] = significant(line["person_years"], 3 if rules.rounds else 6)
        for name in ("rate", "rate_lower", "rate_upper"):
            if hidden:
                line[name] = None
            elif line["person_years"] is None:  # all digits would give the person-years away
                line[name] = significant(line[name], 2)
            elif rules.rounds:
                share = line["events"] / exact["events"] if exact["events"] else 1.0
                line[name] = significant(line[name] * share, 3)
            elif not rules.open:
                line[name] = significant(line[name], 6)
        lines.append(line)
    return lines


def _events(study: ComparativeStudy, arm: str) -> dict[str, int | Bound]:
    """Release events before and after matching; neither they nor their difference may be small."""
    rules, least = study.rules, study.rules.least
    (n, e), (m, f) = (
        (int(study.rates.loc[(when, arm), "people"]), int(study.rates.loc[(when, arm), "events"]))
        for when in ("all", "matched")
    )
    before, after = rules.part(e, n), rules.part(f, m)
    if isinstance(before, int) and isinstance(after, int) and not rules.rounds:
        if rules.small(e - f):
            before = Bound(f + least)
        elif rules.small((n - e) - (m - f)) and not rules.small(n - m):
            before = Bound(f + n - m)
    return {"all": before, "matched": after}


def _hazard_ratios(study: ComparativeStudy, rates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the released hazard ratios, with their people and events."""
    lines = []
    for analysis, exact in study.hazard_ratios.iterrows():
        among = "all" if analysis == "crude" else "matched"
        both = [line for line in rates if line["analysis"] == among]
        people = study.people if among == "all" else study.matched
        sets = people["matched_set"].to_numpy() if "stratified" in str(analysis) else None
        line = {"analysis": analysis, "estimand": CODES[str(analysis)], **exact.to_dict()}
        for what in ("people", "events"):
            n = int(study.rates.loc[among, what].sum())
            line[what] = _total(study, [r[what] for r in both], n)
        lines.append(line | _effect(study, line, people, sets, rates, among))
    return lines


def _effect(
    study: ComparativeStudy,
    line: Mapping[str, Any],
    people: pd.DataFrame,
    sets: Any,
    rates: list[dict[str, Any]],
    among: str,
) -> dict[str, Any]:
    """Release an estimate with the digits that hide all hidden counts, or withhold it."""
    if study.rules.open or line["note"]:
        return {}
    counts = {
        what: [int(study.rates.loc[(among, arm), what]) for arm in ARMS]
        for what in ("events", "people")
    }
    inside = informative_events(people["time"], people["event"], people["treated"], sets)
    hidden = {
        what: [
            n
            for n, arm in zip(exact, ARMS, strict=True)
            if isinstance(line_of(rates, among, arm)[what], Bound)
        ]
        for what, exact in counts.items()
    }
    arms = list(zip(counts["events"], counts["people"], inside, strict=True))
    return _rounded(study, line, arms, hidden)


def _rounded(
    study: ComparativeStudy,
    line: Mapping[str, Any],
    arms: list[tuple[int, int, int]],
    hidden: Mapping[str, list[int]],
) -> dict[str, Any]:
    """Round an estimate of arms with (events, people, informative events), or withhold it."""
    ends = [math.log(x) if x > 0 else -math.inf for x in (line["hr"], line["lower"], line["upper"])]
    secrecy = secrecy_of(arms, hidden["events"], hidden["people"], Effect(*ends).se, study.rules)
    if secrecy.closed:
        return {**dict.fromkeys(NUMBERS, math.nan), "note": WITHHELD}
    effect = {column: line.get(own) for own, column in COLUMNS.items()} | {"log_rr": ends[0]}
    released = rounded_effect(effect, secrecy)
    return {own: released[column] for own, column in COLUMNS.items()}


def _adjustments(study: ComparativeStudy, rates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Release the estimates of other ways to adjust, whose counts are not shown.

    A count is hidden unless it is that of a released line or far from all of them: weights and
    strata keep everybody, but matching to several people leaves some out.
    """
    assert study.beside is not None
    found = []
    for exact in _records(study.beside.adjustments):
        counts = {f"{arm}_{x}": int(exact[f"{arm}_{x}"]) for arm in ARMS for x in COUNTS}
        line = {k: v for k, v in exact.items() if k not in counts}
        if study.rules.open or line["note"]:
            found.append(line)
            continue
        hidden: dict[str, list[int]] = {"events": [], "people": []}
        for arm in ARMS:
            for what, of in hidden.items():
                lines = (line_of(rates, among, arm)[what] for among in ("all", "matched"))
                known = [n for n in lines if not isinstance(n, Bound)]
                n = counts[f"{arm}_{what}"]
                if isinstance(study.rules.apart([n], known)[0], Bound):
                    of.append(n)
        arms = [
            (counts[f"{a}_events"], counts[f"{a}_people"], counts[f"{a}_informative"]) for a in ARMS
        ]
        changed = _rounded(study, line, arms, hidden)
        found.append(line | {k: v for k, v in changed.items() if k in line})
    return found


def _balance(study: ComparativeStudy) -> list[dict[str, Any]]:
    """Return the released shares and standardised differences of covariates."""
    if study.balance is None:
        return []
    rules = study.rules
    lines = []
    for name, exact in study.balance.iterrows():
        line: dict[str, Any] = {"covariate": name}
        for when, analysis in WHEN.items():
            few = False
            for arm in ARMS:
                n, mean = int(study.rates.loc[(analysis, arm), "people"]), exact[f"{arm}_{when}"]
                if n == 0:
                    line[f"{arm}_{when}"] = math.nan
                    continue
                line[f"{arm}_{when}"] = cell = rules.fraction(round(mean * n), n)
                few |= isinstance(cell, Bound) or math.isnan(cell)
            line[f"smd_{when}"] = None if few else _known(_difference(study, exact, when))
        lines.append(line)
    return lines


def _difference(study: ComparativeStudy, line: pd.Series, when: str) -> float:
    """Round a standardised difference so that it does not reveal a prevalence."""
    smd, rules = float(line[f"smd_{when}"]), study.rules
    if rules.open or not math.isfinite(smd):
        return smd
    n = int(study.rates.loc[WHEN[when], "people"].min())
    p, q = float(line[f"target_{when}"]), float(line[f"comparator_{when}"])
    return to_unit(smd, smd_unit(p, q, n, rules.least))


def _known(x: float) -> float | None:
    """Convert NaN to None."""
    return None if math.isnan(x) else x


def largest_differences(study: ComparativeStudy) -> dict[str, float | None]:
    """Return the released largest standardised differences before and after matching."""
    found: dict[str, float | None] = {"before": None, "after": None}
    if study.balance is None:
        return found
    for when in found:
        sizes = study.balance[f"smd_{when}"].abs()
        if sizes.notna().any():
            worst = study.balance.iloc[int(sizes.fillna(-1.0).argmax())]
            found[when] = _known(abs(_difference(study, worst, when)))
    return found


def _scores(study: ComparativeStudy) -> dict[str, Any]:
    """Round the numbers of the propensity model, whose digits would reveal the size of an arm."""
    fit = study.propensity
    if fit is None:
        return {}

    def few(x: float, digits: int = 3) -> float:
        return _few_digits(study, float(x), digits)

    sizes = [int(study.rates.loc[("all", arm), "people"]) for arm in ARMS]
    # an area under the curve is a whole number over twice the product of the sizes
    unit = share_unit(max(math.prod(sizes), 1), 1)
    return {
        "auc": fit.auc if study.rules.open else to_unit(fit.auc, unit),
        "variance": few(fit.model.variance_),
        "optimality": few(np.max(fit.model.optimality_), 2),
        "coefficients": _coefficients(study),
        "caliper_logit": few(study.settings.caliper * float(np.std(fit.logit, ddof=1))),
        "cross_validation": _searched(study),
        "preference": _preference(study),
    }


def _coefficients(study: ComparativeStudy) -> list[dict[str, Any]]:
    """Round coefficients to steps that hide ``least`` people; the intercept is first.

    The intercept of a model without other coefficients is the log ratio of the sizes of the arms,
    and a coefficient is nearly a log odds ratio of four counts.
    """
    assert study.propensity is not None
    rules, table, balance = study.rules, study.propensity.coefficients, study.balance
    if rules.open:
        return table[["name", "coef"]].to_dict("records")
    sizes = {arm: int(study.rates.loc[("all", arm), "people"]) for arm in ARMS}
    lines = []
    for place, line in enumerate(table.to_dict("records")):
        fewest = 0 if place else min(sizes.values())
        if place and balance is not None and line["name"] in balance.index:
            named = balance.loc[[line["name"]]]  # concepts without a name share one
            counts = [
                (round(float(share) * n), n)
                for a, n in sizes.items()
                for share in named[f"{a}_before"]
            ]
            fewest = min(min(k, n - k) for k, n in counts)
        coef = to_unit(float(line["coef"]), log_unit(fewest, rules.least))
        lines.append({"name": line["name"], "coef": coef})
    return lines


def _searched(study: ComparativeStudy) -> list[dict[str, Any]]:
    """Return the variances that were tried, with scores relative to the best one."""
    assert study.propensity is not None
    table = pd.DataFrame(study.propensity.model.cv_results_)
    if study.rules.open:
        return _records(table)
    best = float(table["mean"].max())
    return [
        {
            "variance": significant(float(line["variance"])),
            "mean": significant(float(line["mean"]) - best, 2),
            "se": significant(float(line["se"]), 2),
            "nonzero": line["nonzero"],
        }
        for line in table.to_dict("records")
    ]


def _preference(study: ComparativeStudy, points: int = 101) -> dict[str, Any]:
    """Smooth the density of the preference score in each arm, before and after matching."""
    curves: dict[str, Any] = {"score": np.linspace(0, 1, points).round(6)}
    least = study.rules.least
    for when, people in (("before", study.people), ("after", study.matched)):
        for arm, value in ARMS.items():
            scores = people["preference"][people["treated"] == value].to_numpy()
            if len(scores) < max(least, 1):
                curves[f"{arm}_{when}"] = None
            else:
                curves[f"{arm}_{when}"] = density(scores, points, least=least)[1].round(3)
    return curves


def published_at_risk(people: int, counts: Any, rules: DisclosureRules) -> list[int | Bound]:
    """Release the numbers at risk at successive times; the rates contain the number of people."""
    return rules.falling(people, [round(float(n)) for n in counts])
