"""What a study publishes: no small cells, no estimate that fails, in the form all outputs share.

The page, the JSON file and the terminal show these and nothing else, so that what one of them hides
does not stand in another. A cell is a number, a ``Bound`` on it, or None where even a bound would
tell too much. The tables of the study itself are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steropes.studies.beside import e_values
from steropes.studies.disclosure import Bound, chain, falling, fraction, part, small, total
from steropes.studies.verdicts import Judged, blind, judge, rounded_difference

if TYPE_CHECKING:
    from steropes.data.kaplan_meier import KaplanMeier
    from steropes.studies.comparative import ComparativeStudy

__all__ = ["Published", "publish", "published_at_risk"]

ARMS = {"target": 1, "comparator": 0}
WHEN = {"before": "all", "after": "matched"}


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
        As ``ComparativeStudy.hazard_ratios``.
    balance : list of dict
        As ``ComparativeStudy.balance``. A difference is None where an arm has too few people.
    curves : dict
        Kaplan–Meier curves whose every step holds enough events; an arm with too few is absent.
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
        Of the main hazard ratio, and of its limit that is nearer to one.
    other_draws : tuple of float
        Hazard ratios of other draws among equal scores.
    verdicts : list of Judged
        All diagnostics.
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
    other_draws: tuple[float, ...]
    verdicts: list[Judged]
    blinded: bool = False

    @property
    def failed(self) -> list[Judged]:
        """Diagnostics whose failure hides an estimate, that fail."""
        return [v for v in self.verdicts if v.hides and v.verdict == "FAIL"]

    def main_line(self) -> dict[str, Any]:
        """The hazard ratio that comes first: within pairs, or among the matched."""
        return main_line(self.hazard_ratios)

    def count(self, analysis: str, arm: str, what: str) -> Any:
        """A cell of ``rates``."""
        return line_of(self.rates, analysis, arm)[what]


def publish(study: ComparativeStudy) -> Published:
    """Hide the small cells of a study, and its estimate where a diagnostic fails.

    Small cells are those of fewer than ``settings.min_cell`` people; the estimate stays with
    ``settings.unblind``.
    """
    everything = _without_small_cells(study)
    return everything if study.visible else blind(everything)


def line_of(rates: list[dict[str, Any]], analysis: str, arm: str) -> dict[str, Any]:
    """The line of an analysis and an arm."""
    return next(line for line in rates if (line["analysis"], line["arm"]) == (analysis, arm))


def main_line(hazard_ratios: list[dict[str, Any]]) -> dict[str, Any]:
    """The hazard ratio within pairs, or among the matched where that is missing."""
    lines = {line["analysis"]: line for line in hazard_ratios}
    line = lines["matched, stratified"]
    return lines["matched"] if line["note"] else line


def _without_small_cells(study: ComparativeStudy) -> Published:
    least = study.settings.min_cell
    left = {
        arm: chain([*study.attrition[arm], *([study.pairs] if study.matching_done else [])], least)
        for arm in ARMS
    }
    final = len(study.attrition) - 1
    rates = _rates(study, {arm: left[arm][final] for arm in ARMS})
    hazards = _hazard_ratios(study, rates)
    events = next((h["events"] for h in hazards if h["analysis"] == "matched"), 0)
    balance = _balance(study)
    detectable = None if isinstance(events, Bound) else study.detectable
    around = study.beside
    main = main_line(hazards)
    exact = {arm: int(study.rates.loc[("matched", arm), "events"]) for arm in ARMS}
    return Published(
        attrition=_attrition(study, left),
        rates=rates,
        hazard_ratios=hazards,
        balance=balance,
        curves={
            arm: coarse
            for arm, curve in study.curves().items()
            if isinstance(line_of(rates, "matched", arm)["events"], int)  # its steps add up to them
            and (coarse := _coarse(curve, least)) is not None
        },
        pairs=part(study.pairs, study.pairs, least),
        people=total([left[arm][final] for arm in ARMS]),
        detectable=detectable,
        follow_up=_follow_up(study),
        adjustments=[] if around is None else _records(around.adjustments),
        proportional_p=math.nan if around is None else around.proportional_p,
        e_value=e_values(main["hr"], main["lower"], main["upper"]),
        other_draws=() if study.ties is None else study.ties.hazard_ratios,
        verdicts=judge(
            study,
            {b["covariate"] for b in balance if b["smd_after"] is not None},
            detectable,
            line_of(rates, "matched", min(ARMS, key=exact.__getitem__))["events"],
        ),
    )


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): v for k, v in line.items()} for line in table.to_dict("records")]


def _follow_up(study: ComparativeStudy) -> list[dict[str, Any]]:
    """Of arms in which a tenth of the people are enough, so that no quantile is a person's."""
    if study.beside is None:
        return []
    least = 10 * max(study.settings.min_cell, 1)
    return [
        line
        for line in _records(study.beside.follow_up)
        if int(study.rates.loc[(line["analysis"], line["arm"]), "people"]) >= least
    ]


def _attrition(study: ComparativeStudy, left: Mapping[str, list]) -> list[dict[str, Any]]:
    least = study.settings.min_cell
    rules = [*study.attrition["rule"], *(["in a matched pair"] if study.matching_done else [])]
    exact = {arm: [*study.attrition[arm], study.pairs] for arm in ARMS}
    lines = []
    for k, rule in enumerate(rules):
        line: dict[str, Any] = {"rule": rule}
        for arm in ARMS:
            dropped = int(exact[arm][k - 1] - exact[arm][k]) if k else 0
            known = all(isinstance(n, int) for n in left[arm][max(k - 1, 0) : k + 1])
            if small(dropped, least):
                cell: Any = Bound(least)
            else:
                cell = dropped if known or dropped == 0 else None
            line |= {arm: left[arm][k], f"{arm}_dropped": cell}
        lines.append(line)
    return lines


def _rates(study: ComparativeStudy, everybody: Mapping[str, int | Bound]) -> list[dict[str, Any]]:
    least = study.settings.min_cell
    events = {arm: _events(study, arm) for arm in ARMS}
    lines = []
    for (analysis, arm), exact in study.rates.iterrows():
        line = {"analysis": analysis, "arm": arm, **exact.to_dict()}
        people = int(exact["people"])
        line["people"] = everybody[arm] if analysis == "all" else part(people, people, least)
        line["events"] = events[arm][analysis]
        hidden = isinstance(line["events"], Bound)
        if isinstance(line["people"], Bound):
            line["person_years"] = None
        for name in ("rate", "rate_lower", "rate_upper"):
            if hidden:
                line[name] = None
            elif line["person_years"] is None:  # all digits would give the person-years away
                line[name] = _digits(line[name], 2)
        lines.append(line)
    return lines


def _events(study: ComparativeStudy, arm: str) -> dict[str, int | Bound]:
    """Events before and after matching: neither, nor their difference, may be of few people."""
    least = study.settings.min_cell
    (n, e), (m, f) = (
        (int(study.rates.loc[(when, arm), "people"]), int(study.rates.loc[(when, arm), "events"]))
        for when in ("all", "matched")
    )
    before, after = part(e, n, least), part(f, m, least)
    if isinstance(before, int) and isinstance(after, int):
        if small(e - f, least):
            before = Bound(f + least)
        elif small((n - e) - (m - f), least) and not small(n - m, least):
            before = Bound(f + n - m)
    return {"all": before, "matched": after}


def _hazard_ratios(study: ComparativeStudy, rates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = []
    for analysis, exact in study.hazard_ratios.iterrows():
        among = "all" if analysis == "crude" else "matched"
        both = [line for line in rates if line["analysis"] == among]
        line = {"analysis": analysis, **exact.to_dict()}
        lines.append(line | {w: total([r[w] for r in both]) for w in ("people", "events")})
    return lines


def _balance(study: ComparativeStudy) -> list[dict[str, Any]]:
    if study.balance is None:
        return []
    least = study.settings.min_cell
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
                line[f"{arm}_{when}"] = cell = fraction(round(mean * n), n, least)
                few |= isinstance(cell, Bound) or math.isnan(cell)
            smd = float(exact[f"smd_{when}"])
            line[f"smd_{when}"] = None if few else rounded_difference(smd, least)
        lines.append(line)
    return lines


def _coarse(curve: KaplanMeier, least: int) -> KaplanMeier | None:
    """The curve at the last of every ``least`` events or more; None if it has not as many."""
    at = np.flatnonzero(curve.events > 0)
    if len(at) == 0 or least <= 1:
        return replace(curve, **{name: values[at] for name, values in vars(curve).items()})
    chosen: list[int] = []
    since = 0.0
    for i, n in zip(at.tolist(), curve.events[at].tolist(), strict=True):
        since += n
        # people who leave between two steps are a cell too
        if since >= least and (not chosen or curve.at_risk[chosen[-1]] - curve.at_risk[i] >= least):
            chosen.append(i)
            since = 0.0
    if not chosen:
        return None
    chosen[-1] = int(at[-1])  # what is left over belongs to the last step
    sums = np.diff(np.cumsum(curve.events)[chosen], prepend=0.0)
    parts = {name: values[chosen] for name, values in vars(curve).items()}
    return replace(curve, **(parts | {"events": sums}))


def published_at_risk(
    people: int, counts: Any, least: int, others: Iterable[int | Bound] = ()
) -> list[int | Bound]:
    """Numbers at risk at successive times, of so many people, who are told with the rates.

    ``others`` are those told at other times: whoever left between two of them is a cell too.
    """
    return falling(people, [round(float(n)) for n in counts], least, others)


def _digits(x: float, digits: int) -> float:
    return float(f"{x:.{digits}g}") if math.isfinite(x) else x
