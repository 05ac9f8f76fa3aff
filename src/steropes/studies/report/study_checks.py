"""Findings on a study of one question, for its page and for the terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from steropes.studies.comparative.estimands import estimand_name
from steropes.studies.comparative.tied_scores import MANY_TIED
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
from steropes.studies.diagnostics.study_verdicts import Judged
from steropes.studies.disclosure import Bound
from steropes.studies.disclosure.one_question_release import Published
from steropes.studies.report.digits import decimals, limit_text
from steropes.studies.report.formatting import (
    analysis_name,
    count,
    deciding_percent,
    limit_ratio,
    percent,
    percent_text,
    shown_value,
    title_case,
)

if TYPE_CHECKING:
    from steropes.studies.comparative.one_question import ComparativeStudy

__all__ = ["Check", "checks", "hidden"]


@dataclass(frozen=True)
class Check:
    """A finding on a study with its verdict.

    Attributes
    ----------
    passed : bool
        False if it is a reason to doubt the result.
    finding : str
        A sentence.
    evaluated : bool
        False for a diagnostic without a verdict.
    """

    passed: bool
    finding: str
    evaluated: bool = True

    @classmethod
    def of(cls, diagnostic: Judged, finding: str) -> Check:
        """Make a check with the verdict of a diagnostic."""
        verdict = diagnostic.verdict
        return cls(verdict != "FAIL", finding, verdict != "NOT EVALUATED")

    @property
    def mark(self) -> str:
        """The mark before the finding: "PASS", "WARN" or "NOT EVALUATED"."""
        return "WARN" if not self.passed else "PASS" if self.evaluated else "NOT EVALUATED"


def checks(study: ComparativeStudy, public: Published) -> list[Check]:
    """List the findings that a reader needs before the hazard ratio."""
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
    """Check whether an estimate exists that is not shown."""
    return any(line["note"] == NOT_SHOWN for line in public.hazard_ratios)


def _blinding(study: ComparativeStudy, public: Published) -> list[Check]:
    """Report the diagnostics that fail, and whether they hide the estimate."""
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
    """Describe a diagnostic that fails."""
    if v.key == "convergence":
        return f"the {v.about} did not converge"
    told = "not told" if v.value is None else shown_value(v.value, v.threshold)
    of = f" ({v.about})" if v.about else ""
    return f"the {v.name} is {told}{of} and has to be {v.rule}"


def _no_estimates(public: Published) -> list[Check]:
    """Report each reason of missing estimates, with the analyses that it concerns."""
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
    """Report the number of pairs and the people to whom their effect applies."""
    arms = {arm: int(n) for arm, n in study.attrition[["target", "comparator"]].iloc[-1].items()}
    small, large = sorted(arms, key=lambda arm: (arms[arm], arm))
    if not study.pairs:
        return []
    share_of = study.rules.fraction
    kept = {arm: percent(share_of(study.pairs, n), 0) for arm, n in arms.items()}
    gone = percent(share_of(arms[large] - study.pairs, arms[large]), 0)
    names = {arm: title_case(name) for arm, name in study.names.items()}
    if arms[small] == arms[large]:  # Both arms have the same share.
        text = (
            f"Matching: {count(public.pairs)} pairs hold {kept[small]} of either arm (both have as "
            f"many people); {gone} of either were left out."
        )
    else:
        text = (
            f"Matching: {count(public.pairs)} pairs hold {kept[small]} of the smaller arm "
            f"({names[small]}) and {kept[large]} of the larger ({names[large]}); "
            f"{gone} of the larger arm were left out."
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
    kept_enough = Check(2 * study.pairs >= arms[small], text)
    if lost.verdict != "NOT EVALUATED":
        kept_enough = Check.of(lost, text)
    return [kept_enough, Check(2 * study.pairs >= arms[large], about)]


def _balance(study: ComparativeStudy, public: Published) -> Check:
    """Report the number of unbalanced covariates and the largest difference."""
    assert study.balance is not None
    thresholds, verdict = study.settings.thresholds, public.judged("balance")
    after = study.balance["smd_after"].abs()
    limit = 0.1 if thresholds.balance is None else thresholds.balance
    over = int((after >= limit).sum())
    told = public.largest["after"]
    largest = "" if told is None else f" (largest {shown_value(told, limit)})"
    text = (
        f"Balance: {'none' if over == 0 else over} of {len(after):,} covariates "
        f"{'differ' if over != 1 else 'differs'} by {limit_text(limit)} or more after "
        f"matching{largest}"
    )
    if thresholds.balance_p is not None:
        text += f"; what decides is {shown_value(verdict.value, verdict.threshold)}, {verdict.rule}"
    return Check.of(verdict, text + ".")


def _equipoise(public: Published) -> Check:
    """Report the share of people in equipoise."""
    verdict = public.judged("equipoise")
    needed = "" if verdict.threshold is None else f"{percent_text(verdict.threshold)} is needed; "
    return Check.of(
        verdict,
        f"Equipoise: {deciding_percent(verdict.value, verdict.threshold)} of people have a "
        f"preference score between 0.3 and 0.7 ({needed}half or more is reassuring).",
    )


def _ties(study: ComparativeStudy, public: Published) -> Check | None:
    """Report the share of people with tied scores and the effect of other draws among them."""
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
    text = (
        f"Ties: there {distinct} and {shared} theirs with somebody{most}, so a draw "
        f"(seed {study.settings.seed}) decides which of them are matched"
    )
    found = public.other_draws
    if found:
        text += (
            f"; in {len(found)} other draws the hazard ratio within pairs was "
            f"{decimals(min(found))} to {decimals(max(found))}, "
            f"median {decimals(float(np.median(found)))}"
        )
    return Check.of(verdict, text + ".")


def _floored(share: float | Bound | None) -> str:
    """Format a share in whole percent, rounded down so that only all is 100%."""
    if isinstance(share, float) and math.isfinite(share):
        return f"{math.floor(100 * share)}%"
    return "not told how many" if share is None or share != share else percent(share, 0)


def _convergence(public: Published) -> Check:
    """Report that all fits converged, or which did not."""
    verdict = public.judged("convergence")
    text = "every fit ended at its optimum"
    if verdict.verdict == "FAIL":
        text = f"the {verdict.about} did not converge"
    return Check.of(verdict, f"Convergence: {text}.")


def _folds(study: ComparativeStudy) -> Check | None:
    """Report a cross-validation with fewer folds than requested."""
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
    """Report whether the events suffice for the interval and for a detectable ratio."""
    line = public.main_line()
    least = study.settings.thresholds.outcomes
    few = public.judged("precision").verdict == "FAIL"
    weak = public.judged("detectable").verdict == "FAIL"
    found: list[Check] = []
    if line["note"] and line["note"] != NOT_SHOWN:
        return found
    if not public.blinded:
        arms = [public.count("matched", arm, "events") for arm in ("target", "comparator")]
        text = (
            f"Precision: {count(arms[0])} and {count(arms[1])} events among the matched, and the "
            f"interval's upper limit is {limit_ratio(line)} times its lower one"
        )
        if few:
            text += f"; with fewer than {limit_text(least or 0)} in an arm, neither estimate nor "
            text += "interval can be relied on"
        found.append(Check.of(public.judged("precision"), text + "."))
    elif least is not None:
        text = f"Precision: {'an arm has' if few else 'no arm has'} fewer than {limit_text(least)}"
        text += " outcomes among the matched."
        found.append(Check.of(public.judged("precision"), text))
    if weak:
        limit = study.settings.thresholds.detectable
        assert limit is not None
        text = f"Power: the events are too few to find even a hazard ratio of {limit_text(limit)}."
        found.append(Check(False, text))
    return found
