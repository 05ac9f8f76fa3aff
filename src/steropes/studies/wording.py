"""Numbers as people read them, and the verdicts on a study that follow from them.

Shared by the page and the terminal, so that both say the same thing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steropes.studies.disclosure import Bound
from steropes.studies.disclosure.study import Published
from steropes.studies.ties import MANY_TIED
from steropes.studies.verdicts import NOT_SHOWN, Judged, equipoise_share

if TYPE_CHECKING:
    from steropes.studies.comparative import ComparativeStudy, StudySettings

__all__ = [
    "TEST_OF_HAZARDS",
    "Check",
    "analysis_name",
    "checks",
    "count",
    "decimals",
    "hidden",
    "p_value",
    "percent",
    "risk_period",
    "title_case",
]

ANALYSES = {
    "crude": "everybody, before matching",
    "matched": "matched people",
    "matched, stratified": "matched people, within pairs",
}

TEST_OF_HAZARDS = (
    "score test of Grambsch and Therneau, time transformed to one minus the Kaplan–Meier curve"
)
LARGEST_SPREAD = 1.1  # of hazard ratios over draws among equal scores


@dataclass(frozen=True)
class Check:
    """One question put to a finished study: whether it passed, and the finding in a sentence."""

    passed: bool
    finding: str


def checks(study: ComparativeStudy, public: Published) -> list[Check]:
    """What to look at before believing the hazard ratio."""
    found: list[Check | None] = [*_blinding(study, public), *_no_estimates(public)]
    found += [Check(False, note["note"]) for note in public.data_notes if note["warning"]]
    if study.propensity is not None:
        found += [*_matching(study, public), _equipoise(study)]
        if study.pairs:
            found.insert(len(found) - 1, _balance(study, public))
        found.append(_ties(study, public))
        found += _propensity(study)
    if study.pairs:
        found.append(_precision(study, public))
    return [c for c in found if c is not None]


def hidden(public: Published) -> bool:
    """Whether there is an estimate that is not shown."""
    return any(line["note"] == NOT_SHOWN for line in public.hazard_ratios)


def _blinding(study: ComparativeStudy, public: Published) -> list[Check]:
    """That a diagnostic fails, and whether the estimate is hidden for it."""
    there = any(not line["note"] for line in public.hazard_ratios)
    if not public.failed or not (there or hidden(public)):
        return []
    failed = "; ".join(failure(v) for v in public.failed)
    if hidden(public):
        return [
            Check(
                False,
                f"Not shown: hazard ratios and the outcomes of the arms, because the study fails "
                f"a diagnostic: {failed}. It can be asked for: --unblind.",
            )
        ]
    return [
        Check(
            False,
            f"Unblinded: the study fails a diagnostic, {failed}. Its hazard ratios would not be "
            "shown if it had not been asked for (--unblind).",
        )
    ]


def failure(v: Judged) -> str:
    """A diagnostic that fails, in words."""
    value = v.value
    if isinstance(value, Bound):
        told = str(value)
    elif value is None:
        told = "not told"
    else:
        told = decimals(value)
    of = f" ({v.about})" if v.about else ""
    return f"the {v.name} is {told}{of} and has to be {v.rule}"


def _no_estimates(public: Published) -> list[Check]:
    """One for each reason, with the analyses that it concerns."""
    notes = {str(line["analysis"]): str(line["note"]) for line in public.hazard_ratios}
    return [
        Check(
            False,
            f"No estimate for {'; '.join(analysis_name(a) for a in notes if notes[a] == note)}: "
            f"{note.rstrip('.')}.",
        )
        for note in dict.fromkeys(notes.values())
        if note and note != NOT_SHOWN
    ]


def _matching(study: ComparativeStudy, public: Published) -> list[Check]:
    """Pairs, and whom the effect among them is about."""
    arms = {arm: int(n) for arm, n in study.attrition[["target", "comparator"]].iloc[-1].items()}
    small, large = sorted(arms, key=lambda arm: (arms[arm], arm))
    if not study.pairs:
        return []
    share_of = study.rules.fraction
    kept = {arm: percent(share_of(study.pairs, n), 0) for arm, n in arms.items()}
    gone = percent(share_of(arms[large] - study.pairs, arms[large]), 0)
    names = study.names
    if arms[small] == arms[large]:  # one share is that of both
        said = (
            f"Matching: {count(public.pairs)} pairs hold {kept[small]} of either arm (both have as "
            f"many people); {gone} of either went."
        )
    else:
        said = (
            f"Matching: {count(public.pairs)} pairs hold {kept[small]} of the smaller arm "
            f"({names[small]}) and {kept[large]} of the larger ({names[large]}); "
            f"{gone} of the larger arm went."
        )
    close = 100 * study.pairs // arms[small] >= 95
    about = (
        "Estimand: the effect among the matched people, those of either drug for whom somebody "
        "alike was found on the other"
    )
    if 100 * study.pairs // arms[large] >= 95:
        about += "; that is nearly everybody."
    elif close:
        about += f"; that is nearly the effect in people like the users of {names[small]}."
    else:
        about += "; it need not hold for the users of either drug as a whole."
    share = study.pairs / arms[small]
    return [Check(share >= 0.5, said), Check(2 * study.pairs >= arms[large], about)]


def _balance(study: ComparativeStudy, public: Published) -> Check:
    assert study.balance is not None
    after = study.balance["smd_after"].abs()
    limit = study.settings.thresholds.balance
    limit = 0.1 if limit is None else limit
    over = int((after >= limit).sum())
    told = public.largest["after"]
    largest = "" if told is None else f" (largest {decimals(told)})"
    return Check(
        over == 0,
        f"Balance: {'none' if over == 0 else over} of {len(after):,} covariates "
        f"{'differ' if over != 1 else 'differs'} by {limit:g} or more after matching{largest}.",
    )


def _equipoise(study: ComparativeStudy) -> Check:
    assert study.propensity is not None
    return Check(
        study.propensity.equipoise() >= 0.5,
        f"Equipoise: {percent(equipoise_share(study), 0)} of people have a preference score "
        "between 0.3 and 0.7 (half or more is reassuring).",
    )


def _ties(study: ComparativeStudy, public: Published) -> Check | None:
    """Whether a draw among equal scores decided the result."""
    ties = study.ties
    if ties is None or ties.share < MANY_TIED:
        return None
    distinct = (
        "is only one score"
        if ties.distinct == 1
        else f"are only {count(ties.distinct)} distinct scores"
    )
    said = (
        f"Ties: there {distinct} and "
        f"{_floored(public.tied)} of people share theirs with somebody, so a draw "
        f"(seed {study.settings.seed}) decides which of them are matched"
    )
    found = public.other_draws
    if found:
        said += (
            f"; in {len(found)} other draws the hazard ratio within pairs was "
            f"{decimals(min(found))} to {decimals(max(found))}, "
            f"median {decimals(float(np.median(found)))}"
        )
    line = next(h for h in public.hazard_ratios if h["analysis"] == "matched, stratified")
    every = [*found, *([] if line["note"] else [float(line["hr"])])]
    return Check(bool(found) and max(every) <= LARGEST_SPREAD * min(every), said + ".")


def _floored(share: float | Bound | None) -> str:
    """A share in whole percent, not rounded up to all."""
    if isinstance(share, float) and math.isfinite(share):
        return f"{math.floor(100 * share)}%"
    return "not told how many" if share is None or share != share else percent(share, 0)


def _propensity(study: ComparativeStudy) -> list[Check]:
    fit, settings = study.propensity, study.settings
    assert fit is not None
    converged = bool(fit.model.converged_)
    found = [
        Check(
            converged,
            f"Propensity model: {'converged' if converged else 'did not converge'} to its optimum.",
        )
    ]
    if fit.folds < settings.folds:
        found.append(
            Check(
                False,
                f"Propensity model: {fit.folds} folds instead of {settings.folds}, "
                "for an arm has no more people.",
            )
        )
    return found


def _precision(study: ComparativeStudy, public: Published) -> Check | None:
    line = public.main_line()
    d, least = study.diagnostics, study.settings.thresholds.outcomes
    few = d.precision_verdict == "FAIL"
    poor = few or d.detectable_verdict == "FAIL"
    if line["note"] and line["note"] != NOT_SHOWN:
        return None
    if public.blinded and least is None:
        return None
    if public.blinded:
        said = f"Precision: {'an arm has' if few else 'no arm has'} fewer than {least:g} outcomes"
        return Check(not poor, said + " among the matched.")
    arms = [public.count("matched", arm, "events") for arm in ("target", "comparator")]
    said = (
        f"Precision: {count(arms[0])} and {count(arms[1])} events among the matched, and the "
        f"interval's upper limit is {factor(line)} times its lower one"
    )
    if few:
        said += f"; with fewer than {least:g} in an arm, neither estimate nor interval can be "
        said += "relied on"
    elif poor:
        said += f"; too few to find even a hazard ratio of {study.settings.thresholds.detectable:g}"
    return Check(not poor, said + ".")


def factor(line: Any) -> str:
    """How many times the lower limit the upper one is."""
    ratio = math.exp(min(700.0, 2 * 1.959964 * float(line["se"])))
    return decimals(ratio, 1) if ratio < 100 else count(ratio) if ratio < 1e6 else "over a million"


def analysis_name(analysis: object) -> str:
    """An analysis of the hazard ratio in words."""
    return ANALYSES.get(str(analysis), str(analysis))


def risk_period(settings: StudySettings) -> str:
    """The time at risk in words."""
    if settings.risk_days is None:
        return "from the day after the start to the end of observation"
    return (
        "from the day after the start to the end of observation, "
        f"but no longer than {count(settings.risk_days)} days"
    )


def count(n: float | Bound | None) -> str:
    """A count, with separators of thousands; a dash where it is hidden altogether."""
    if isinstance(n, Bound):
        return str(n)
    return "–" if n is None or math.isnan(n) else f"{n:,.0f}"


def percent(share: float | Bound | None, digits: int = 1) -> str:
    """A share as a percentage."""
    if isinstance(share, Bound):
        return share.percent()
    return "–" if share is None or math.isnan(share) else f"{100 * share:.{digits}f}%"


def decimals(x: float | None, digits: int = 2) -> str:
    """A number with a fixed number of decimals; a dash where there is none."""
    if x is None or math.isnan(x):
        return "–"
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    return f"{x:.{digits}f}".replace("-", "−")


def p_value(p: float) -> str:
    """A p value as journals print it."""
    if math.isnan(p):
        return "–"
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def title_case(text: str) -> str:
    """The text with a capital first letter; vocabularies are not consistent about it."""
    return text[:1].upper() + text[1:]
