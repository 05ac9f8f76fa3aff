"""Checks of a study of one question, such as balance, for its page and the terminal."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steropes.data.number_formatting import decimals, limit_text
from steropes.designs.values.estimands import estimand_name
from steropes.studies.diagnostics.diagnostic import Verdict
from steropes.studies.diagnostics.diagnostic_catalogue import further_diagnostics
from steropes.studies.diagnostics.failing_diagnostics import with_names
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN, is_not_shown
from steropes.studies.disclosure.small_cell_suppression import Bound, largest_count
from steropes.studies.formatting.released_numbers import (
    analysis_name,
    count,
    deciding_percent,
    limit_ratio,
    percent,
    percent_text,
    shown_value,
    title_case,
)
from steropes.studies.one_question.study_result_rows import ARMS
from steropes.studies.release.one_question_release import Published
from steropes.studies.specifications.one_question_specification import MAIN

__all__ = ["Check", "checks", "hidden"]

NEARLY_NOBODY = 0.05  # An effect is nearly that in an arm of whom matching drops no more than this.


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
    def of(cls, diagnostic: Verdict, finding: str) -> Check:
        """Make a check with the verdict of a diagnostic."""
        verdict = diagnostic.verdict
        return cls(verdict != "FAIL", finding, verdict != "NOT EVALUATED")

    @property
    def mark(self) -> str:
        """The mark before the finding: "PASS", "WARN" or "NOT EVALUATED"."""
        return "WARN" if not self.passed else "PASS" if self.evaluated else "NOT EVALUATED"


def checks(public: Published) -> list[Check]:
    """List the findings that a reader needs before the hazard ratio."""
    found: list[Check | None] = [*_blinding(public), *_no_estimates(public)]
    found += [Check(False, note["note"]) for note in public.data_notes if note["warning"]]
    if public.model is not None:
        if public.pairs:
            found += [*_matching(public), _balance(public)]
        found += [_equipoise(public), _ties(public), _convergence(public), _folds(public)]
    further = further_diagnostics(public.settings.thresholds)
    judged = [public.judged(d.key) for d in further]
    found += [Check.of(v, _further(v)) for v in judged]
    if public.pairs:
        found += _precision(public)
    return [c for c in found if c is not None]


def hidden(public: Published) -> bool:
    """Check whether an estimate exists that is not shown."""
    return any(line["note"] == NOT_SHOWN for line in public.hazard_ratios)


def _blinding(public: Published) -> list[Check]:
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
                f"a diagnostic: {failed}. --unblind shows them.",
            )
        ]
    return [
        Check(
            False,
            f"Unblinded: the study fails a diagnostic, {failed}. Its hazard ratios would not be "
            "shown if it had not been asked for (--unblind).",
        )
    ]


def _further(v: Verdict) -> str:
    """Report a further diagnostic in a sentence."""
    return f"{title_case(v.name)}: {shown_value(v.value, v.threshold)} ({v.rule} is needed)."


def failure(v: Verdict) -> str:
    """Describe a diagnostic that fails."""
    if v.key == "convergence":
        return f"the {v.about} did not converge"
    value = "withheld" if v.value is None else shown_value(v.value, v.threshold)
    of = f" ({v.about})" if v.about else ""
    return f"the {v.name} is {value}{of} and has to be {v.rule}"


def _no_estimates(public: Published) -> list[Check]:
    """Report each reason of missing estimates, with the analyses that it concerns."""
    failed = ", ".join(v.name for v in public.failed)
    notes = {
        str(line["analysis"]): with_names(line["note"], failed) for line in public.hazard_ratios
    }
    return [
        Check(
            False,
            f"No estimate for {'; '.join(analysis_name(a) for a in notes if notes[a] == note)}: "
            f"{note.rstrip('.')}.",
        )
        for note in dict.fromkeys(notes.values())
        if note and not is_not_shown(note)
    ]


def _matching(public: Published) -> list[Check]:
    """Report the number of pairs and the people to whom their effect applies."""
    lost = {arm: float(public.results[MAIN][f"{arm}_lost"]) for arm in ARMS}
    people = {arm: public.count("all", arm, "people") for arm in ARMS}
    small, large = sorted(ARMS, key=lambda arm: largest_count(people[arm]))
    kept = {arm: percent(1 - share, 0) for arm, share in lost.items()}
    gone = percent(lost[large], 0)
    names = {arm: title_case(name) for arm, name in public.names.items()}
    text = f"Matching: {count(public.pairs)} pairs hold {kept[small]} of "
    if people[small] == people[large]:  # Both arms have the same share.
        text += f"either arm (both have as many people); {gone} of either were left out."
    else:
        text += (
            f"the smaller arm ({names[small]}) and {kept[large]} of the larger ({names[large]}); "
            f"{gone} of the larger arm were left out."
        )
    about = (
        f"Estimand: the effect among {estimand_name('atm')}, those of either drug for whom "
        "a similar user of the other was found"
    )
    if lost[large] <= NEARLY_NOBODY:
        about += "; that is nearly everybody."
    elif lost[small] <= NEARLY_NOBODY:
        about += f"; that is nearly the effect in people like the users of {names[small]}."
    else:
        about += "; it need not hold for the users of either drug as a whole."
    dropped = public.judged("attrition")
    kept_enough = Check(not lost[small] > 0.5, text)
    if dropped.verdict != "NOT EVALUATED":
        kept_enough = Check.of(dropped, text)
    return [kept_enough, Check(not lost[large] > 0.5, about)]


def _balance(public: Published) -> Check:
    """Report the number of unbalanced covariates and the largest difference."""
    thresholds, verdict = public.settings.thresholds, public.judged("balance")
    limit = thresholds.shown_balance
    over, size = public.over["limit"], public.largest["after"]
    known, few = public.over["known"] or 0, len(public.balance) - (public.over["known"] or 0)
    more = [] if size is None else [f"largest {shown_value(size, limit)}"]
    more += (
        [f"{few:,} more have few people in an arm and count for the verdict alone"] if few else []
    )
    largest = f" ({'; '.join(more)})" if more else ""
    text = (
        f"Balance: {over or 'none'} of {known:,} covariates "
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


def _ties(public: Published) -> Check | None:
    """Report the share of people with tied scores and the effect of other draws among them."""
    ties, verdict = public.ties, public.judged("ties")
    if ties is None or (not ties["many"] and verdict.verdict != "FAIL"):
        return None
    distinct = (
        "is only one score"
        if ties["distinct"] == 1
        else f"are only {count(ties['distinct'])} distinct scores"
    )
    value = ties["share"] if verdict.value is None else verdict.value
    shared = f"{_floored(value)} of {'people' if verdict.value is None else 'the matched'} share"
    limit = verdict.threshold
    most = "" if limit is None else f" (at most {percent_text(limit)} may)"
    text = (
        f"Ties: there {distinct} and {shared} theirs with somebody{most}, so a draw "
        f"(seed {public.settings.seed}) decides which of them are matched"
    )
    found = ties["draws"]
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
    return "an unknown share" if share is None or share != share else percent(share, 0)


def _convergence(public: Published) -> Check:
    """Report that all fits converged, or which did not."""
    verdict = public.judged("convergence")
    text = "every fit ended at its optimum"
    if verdict.verdict == "FAIL":
        text = f"the {verdict.about} did not converge"
    return Check.of(verdict, f"Convergence: {text}.")


def _folds(public: Published) -> Check | None:
    """Report a cross-validation with fewer folds than requested."""
    assert public.model is not None
    folds, requested = public.model["folds"], public.settings.folds
    if folds is not None and folds >= requested:
        return None
    fewer = f"fewer than {requested} folds" if folds is None else f"{folds} folds, not {requested}"
    return Check(False, f"Propensity model: {fewer}, for an arm has no more people.")


def _precision(public: Published) -> list[Check]:
    """Report whether the events suffice for the interval and for a detectable ratio."""
    line = public.main_line()
    least = public.settings.thresholds.outcomes
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
        limit = public.settings.thresholds.detectable
        assert limit is not None
        text = f"Power: the events are too few to find even a hazard ratio of {limit_text(limit)}."
        found.append(Check(False, text))
    return found
