"""Numbers as people read them, and the verdicts on a study that follow from them.

Shared by the page and the terminal, so that both say the same thing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from steropes.studies.comparative.estimands import estimand_name
from steropes.studies.comparative.tied_scores import MANY_TIED
from steropes.studies.diagnostics.study_verdicts import NOT_SHOWN, Judged
from steropes.studies.disclosure import Bound
from steropes.studies.disclosure.study import Published
from steropes.studies.normal_quantile import Z
from steropes.studies.report.digits import deciding, deciding_p, decimals, limit_text

if TYPE_CHECKING:
    from steropes.studies.comparative.one_question import ComparativeStudy
    from steropes.studies.comparative.study_settings import StudySettings

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
    "ratio_text",
    "risk_period",
    "shown_value",
    "title_case",
    "unconverged_text",
]

ANALYSES = {
    "crude": "everybody, before matching",
    "matched": "matched people",
    "matched, stratified": "matched people, within pairs",
}

TEST_OF_HAZARDS = (
    "score test of Grambsch and Therneau, time transformed to one minus the Kaplan–Meier curve"
)


@dataclass(frozen=True)
class Check:
    """One question put to a finished study.

    Attributes
    ----------
    passed : bool
        False where it speaks against the result.
    finding : str
        What was found, in a sentence.
    evaluated : bool
        False for a diagnostic that has no verdict.
    """

    passed: bool
    finding: str
    evaluated: bool = True

    @classmethod
    def of(cls, diagnostic: Judged, finding: str) -> Check:
        """A check with the verdict of a diagnostic."""
        verdict = diagnostic.verdict
        return cls(verdict != "FAIL", finding, verdict != "NOT EVALUATED")

    @property
    def mark(self) -> str:
        """The mark before it: "PASS", "WARN" or "NOT EVALUATED"."""
        return "WARN" if not self.passed else "PASS" if self.evaluated else "NOT EVALUATED"


def checks(study: ComparativeStudy, public: Published) -> list[Check]:
    """What to look at before believing the hazard ratio."""
    found: list[Check | None] = [*_blinding(study, public), *_no_estimates(public)]
    found += [Check(False, note["note"]) for note in public.data_notes if note["warning"]]
    if study.propensity is not None:
        found += [*_matching(study, public), _equipoise(public)]
        if study.pairs:
            found.insert(len(found) - 1, _balance(study, public))
        found.append(_ties(study, public))
        found += [_convergence(public), _folds(study)]
    found += [Check.of(v, _further(v)) for v in public.verdicts if v.key in study.further]
    if study.pairs:
        found += _precision(study, public)
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


def _further(v: Judged) -> str:
    """Report a further diagnostic in a sentence."""
    return f"{title_case(v.name)}: {shown_value(v.value, v.threshold)} ({v.rule} is needed)."


def failure(v: Judged) -> str:
    """A diagnostic that fails, in words."""
    if v.key == "convergence":
        return f"the {v.about} did not converge"
    told = "not told" if v.value is None else shown_value(v.value, v.threshold)
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
    names = {arm: title_case(name) for arm, name in study.names.items()}
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
        f"Estimand: the effect among {estimand_name('atm')}, those of either drug for whom "
        "somebody alike was found on the other"
    )
    if 100 * study.pairs // arms[large] >= 95:
        about += "; that is nearly everybody."
    elif close:
        about += f"; that is nearly the effect in people like the users of {names[small]}."
    else:
        about += "; it need not hold for the users of either drug as a whole."
    lost = public.judged("attrition")
    kept_enough = Check(2 * study.pairs >= arms[small], said)
    if lost.verdict != "NOT EVALUATED":
        kept_enough = Check.of(lost, said)
    return [kept_enough, Check(2 * study.pairs >= arms[large], about)]


def _balance(study: ComparativeStudy, public: Published) -> Check:
    assert study.balance is not None
    thresholds, verdict = study.settings.thresholds, public.judged("balance")
    after = study.balance["smd_after"].abs()
    limit = 0.1 if thresholds.balance is None else thresholds.balance
    over = int((after >= limit).sum())
    told = public.largest["after"]
    largest = "" if told is None else f" (largest {shown_value(told, limit)})"
    said = (
        f"Balance: {'none' if over == 0 else over} of {len(after):,} covariates "
        f"{'differ' if over != 1 else 'differs'} by {limit_text(limit)} or more after "
        f"matching{largest}"
    )
    if thresholds.balance_p is not None:
        said += f"; what decides is {shown_value(verdict.value, verdict.threshold)}, {verdict.rule}"
    return Check.of(verdict, said + ".")


def _equipoise(public: Published) -> Check:
    verdict = public.judged("equipoise")
    needed = "" if verdict.threshold is None else f"{percent_text(verdict.threshold)} is needed; "
    return Check.of(
        verdict,
        f"Equipoise: {deciding_percent(verdict.value, verdict.threshold)} of people have a "
        f"preference score between 0.3 and 0.7 ({needed}half or more is reassuring).",
    )


def _ties(study: ComparativeStudy, public: Published) -> Check | None:
    """What a draw among equal scores decides; its mark is that of the diagnostic."""
    ties, verdict = study.ties, public.judged("ties")
    if ties is None or (ties.share < MANY_TIED and verdict.verdict != "FAIL"):
        return None
    distinct = (
        "is only one score"
        if ties.distinct == 1
        else f"are only {count(public.distinct)} distinct scores"
    )
    value = public.tied if verdict.value is None else verdict.value
    shared = f"{_floored(value)} of {'people' if verdict.value is None else 'the matched'} share"
    limit = verdict.threshold
    most = "" if limit is None else f" (at most {percent_text(limit)} may)"
    said = (
        f"Ties: there {distinct} and {shared} theirs with somebody{most}, so a draw "
        f"(seed {study.settings.seed}) decides which of them are matched"
    )
    found = public.other_draws
    if found:
        said += (
            f"; in {len(found)} other draws the hazard ratio within pairs was "
            f"{decimals(min(found))} to {decimals(max(found))}, "
            f"median {decimals(float(np.median(found)))}"
        )
    return Check.of(verdict, said + ".")


def _floored(share: float | Bound | None) -> str:
    """A share in whole percent, not rounded up to all."""
    if isinstance(share, float) and math.isfinite(share):
        return f"{math.floor(100 * share)}%"
    return "not told how many" if share is None or share != share else percent(share, 0)


def _convergence(public: Published) -> Check:
    """Say that every fit ended at its optimum, or which did not."""
    verdict = public.judged("convergence")
    said = "every fit ended at its optimum"
    if verdict.verdict == "FAIL":
        said = f"the {verdict.about} did not converge"
    return Check.of(verdict, f"Convergence: {said}.")


def _folds(study: ComparativeStudy) -> Check | None:
    fit, settings = study.propensity, study.settings
    assert fit is not None
    if fit.folds >= settings.folds:
        return None
    return Check(
        False,
        f"Propensity model: {fit.folds} folds instead of {settings.folds}, "
        "for an arm has no more people.",
    )


def _precision(study: ComparativeStudy, public: Published) -> list[Check]:
    """Whether events are enough for the interval, and for a ratio of some size to be found."""
    line = public.main_line()
    least = study.settings.thresholds.outcomes
    few = public.judged("precision").verdict == "FAIL"
    weak = public.judged("detectable").verdict == "FAIL"
    found: list[Check] = []
    if line["note"] and line["note"] != NOT_SHOWN:
        return found
    if not public.blinded:
        arms = [public.count("matched", arm, "events") for arm in ("target", "comparator")]
        said = (
            f"Precision: {count(arms[0])} and {count(arms[1])} events among the matched, and the "
            f"interval's upper limit is {factor(line)} times its lower one"
        )
        if few:
            said += f"; with fewer than {limit_text(least or 0)} in an arm, neither estimate nor "
            said += "interval can be relied on"
        found.append(Check.of(public.judged("precision"), said + "."))
    elif least is not None:
        said = f"Precision: {'an arm has' if few else 'no arm has'} fewer than {limit_text(least)}"
        said += " outcomes among the matched."
        found.append(Check.of(public.judged("precision"), said))
    if weak:
        limit = study.settings.thresholds.detectable
        assert limit is not None
        said = f"Power: the events are too few to find even a hazard ratio of {limit_text(limit)}."
        found.append(Check(False, said))
    return found


def factor(line: Any) -> str:
    """How many times the lower limit the upper one is."""
    ratio = math.exp(min(700.0, 2 * Z * float(line["se"])))
    return decimals(ratio, 1) if ratio < 100 else count(ratio) if ratio < 1e6 else "over a million"


def ratio_text(line: Any) -> str:
    """The hazard ratio of a line, with a word where its fit did not converge."""
    return decimals(line["hr"]) + unconverged_text(line)


def unconverged_text(line: Any) -> str:
    """Return the remark for a number whose fit did not converge, else an empty text."""
    return " (did not converge)" if line.get("converged") is False and not line["note"] else ""


def analysis_name(analysis: object) -> str:
    """Name an analysis of the hazard ratio in words."""
    return ANALYSES.get(str(analysis), str(analysis))


def risk_period(settings: StudySettings) -> str:
    """The time at risk in words."""
    if settings.risk_days is None:
        return "from the day after the start to the end of observation"
    return (
        "from the day after the start to the end of observation, "
        f"but no longer than {count(settings.risk_days)} days"
    )


def percent_text(share: float) -> str:
    """A limit as a percentage, with all its digits."""
    return f"{limit_text(100 * share)}%"


def deciding_percent(share: float | Bound | None, limit: float | None) -> str:
    """A share in whole percent, or with the digits that tell it from its limit."""
    if isinstance(share, Bound):
        return share.percent()
    if share is None or math.isnan(share):
        return "–"
    limits = () if limit is None else (round(100 * limit, 9),)
    return f"{deciding(round(100 * share, 9), *limits, digits=0)}%"


def shown_value(x: float | Bound | None, *limits: float | None, digits: int = 2) -> str:
    """A released number, with the digits that tell it from its limits."""
    return str(x) if isinstance(x, Bound) else deciding(x, *limits, digits=digits)


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


def p_value(p: float) -> str:
    """A p value as journals print it."""
    return deciding_p(p)


def title_case(text: str) -> str:
    """The text with a capital first letter; vocabularies are not consistent about it."""
    return text[:1].upper() + text[1:]
