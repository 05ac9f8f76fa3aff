"""The diagnostics of a one-question study as readers see them, and what they hide.

The rule is the grids' (``Diagnostics.unblind``). Where a diagnostic fails, nobody sees the effect,
by whatever way to adjust, nor the outcomes of the arms, from which it follows; who was studied,
the scores and the balance stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from steropes.studies.disclosure import Bound
from steropes.studies.disclosure.rounding import significant, smd_unit, to_unit
from steropes.studies.report.digits import Relation, limit_text, passes

if TYPE_CHECKING:
    from steropes.studies.comparative.one_question import ComparativeStudy
    from steropes.studies.diagnostics.comparative_diagnostics import Verdict
    from steropes.studies.disclosure.study import Published

__all__ = [
    "NOT_SHOWN",
    "NO_NOTE",
    "Judged",
    "blind",
    "equipoise_share",
    "judge",
    "without_lone_crude",
]

NOT_SHOWN = "not shown: a diagnostic failed"
NO_NOTE = "no finite estimate, and not shown: a diagnostic failed"
LONE_CRUDE = "a crude estimate is not shown where no adjusted one stands beside it"
EFFECT = ("hr", "lower", "upper", "p", "log_hr", "se")
OUTCOMES = ("events", "rate", "rate_lower", "rate_upper")


@dataclass(frozen=True)
class Judged:
    """A diagnostic with its verdict.

    Attributes
    ----------
    key : str
        "balance", "equipoise", "detectable", "generalizability", "attrition", "convergence",
        "systematic error", "precision" or "ties".
    name : str
    value : float, Bound or None
        Rounded as far as small cells ask for; None where it could not be evaluated. Where rounding
        would put it on the other side of the threshold, it is a bound that agrees with the verdict.
    rule : str
        What it takes to pass.
    verdict : {"PASS", "FAIL", "NOT EVALUATED"}
    hides : bool
        Whether an estimate that fails it is not shown.
    about : str
        What the value is of, where that can be told.
    threshold : float or None
        The number in the rule.
    """

    key: str
    name: str
    value: float | Bound | None
    rule: str
    verdict: Verdict
    hides: bool = True
    about: str = ""
    threshold: float | None = None


def judge(
    study: ComparativeStudy,
    named: set[str],
    detectable: float | None,
    fewest: int | Bound,
) -> list[Judged]:
    """All diagnostics of a study.

    Parameters
    ----------
    study : ComparativeStudy
    named : set of str
        Covariates whose difference after matching is published.
    detectable : float or None
        As it is published.
    fewest : int or Bound
        Events of the matched arm with fewer of them, as they are published.
    """
    d, t = study.diagnostics, study.settings.thresholds
    largest = None if study.balance is None else _largest(study)
    by_p = t.balance_p is not None
    return [
        _judged(
            "balance",
            "p value of the standardised differences after matching"
            if by_p
            else "largest standardised difference after matching",
            _known(_few(study, d.difference_p)) if by_p else largest,
            ("at least", t.balance_p) if by_p else ("below", t.balance),
            d.balance_verdict,
            about=d.worst_covariate if d.worst_covariate in named else "",
        ),
        _judged(
            "equipoise",
            "equipoise",
            equipoise_share(study),
            ("at least", t.equipoise),
            d.equipoise_verdict,
        ),
        _judged(
            "detectable",
            "minimum detectable hazard ratio",
            detectable,
            ("below", t.detectable),
            d.detectable_verdict,
        ),
        _judged(
            "generalizability",
            "generalisability: largest difference of the target to before matching",
            _known(_shift(study, d.generalizability)),
            ("below", t.generalizability),
            d.generalizability_verdict,
        ),
        _judged(
            "attrition",
            "share of the target that matching left out",
            _lost(study),
            ("at most", t.attrition),
            d.attrition_verdict,
        ),
        Judged(
            "convergence",
            "convergence of the fits",
            None,
            "every fit ends at its optimum",
            d.convergence_verdict,
            about=d.unconverged,
        ),
        Judged(
            "systematic error",
            "expected absolute systematic error",
            None,
            "needs negative controls: steropes grid",
            d.systematic_error_verdict,
        ),
        _judged(
            "precision",
            "precision: outcomes in the arm with fewer of them",
            None if math.isnan(d.fewest) else fewest,
            ("at least", t.outcomes),
            d.precision_verdict,
            hides=False,
        ),
        _judged(
            "ties",
            "share of matched people whose score others have too",
            None if math.isnan(d.tied) else _tied(study, d.tied),
            ("at most", t.tied),
            d.tied_verdict,
            hides=False,
        ),
    ]


def _judged(
    key: str,
    name: str,
    value: float | Bound | None,
    rule: tuple[Relation, float | None],
    verdict: Verdict,
    *,
    hides: bool = True,
    about: str = "",
) -> Judged:
    """Make a diagnostic whose value agrees with its verdict, however it was rounded."""
    relation, threshold = rule
    if threshold is None:
        return Judged(key, name, value, "no threshold", verdict, hides, about)
    if verdict != "NOT EVALUATED" and isinstance(value, float) and math.isfinite(value):
        passed = verdict == "PASS"
        if passes(value, relation, threshold) != passed:
            value = Bound(threshold, above=passed == (relation == "at least"))
    said = f"{relation} {limit_text(threshold)}"
    return Judged(key, name, value, said, verdict, hides, about, threshold)


def _largest(study: ComparativeStudy) -> float | None:
    from steropes.studies.disclosure.study import largest_differences

    return largest_differences(study)["after"]


def _few(study: ComparativeStudy, p: float) -> float:
    return p if study.rules.open else significant(p, 2)


def _shift(study: ComparativeStudy, smd: float) -> float:
    """How far the target moved, without the digits that would give a prevalence away."""
    if study.rules.open:
        return smd
    return to_unit(smd, smd_unit(0.5, 0.5, max(study.pairs, 1), study.rules.least))


def _tied(study: ComparativeStudy, share: float) -> float | Bound | None:
    n = len(study.matched)
    found = study.rules.fraction(round(share * n), n)
    return found if isinstance(found, Bound) else _known(found)


def blind(public: Published) -> Published:
    """The same without the effect and the outcomes of the arms.

    A reason for a missing estimate that tells which arm had no outcome is replaced by one that does
    not.
    """
    one_arm = {}
    for analysis in ("all", "matched"):
        arms = [line for line in public.rates if line["analysis"] == analysis]
        one_arm[analysis] = sum(a["events"] == 0 for a in arms) == 1 and all(
            a["people"] != 0 for a in arms
        )
    hazards = []
    for line in public.hazard_ratios:
        among = "all" if line["analysis"] == "crude" else "matched"
        note = (NO_NOTE if one_arm[among] else line["note"]) if line["note"] else NOT_SHOWN
        hazards.append({**line, **dict.fromkeys(EFFECT, math.nan), "note": note})
    precision = [replace(v, value=None) if v.key == "precision" else v for v in public.verdicts]
    return replace(
        public,
        blinded=True,
        hazard_ratios=hazards,
        rates=[{**line, **dict.fromkeys(OUTCOMES)} for line in public.rates],
        curves={},
        adjustments=[
            {**line, **dict.fromkeys(("hr", "lower", "upper", "p"), math.nan), "note": NOT_SHOWN}
            for line in public.adjustments
        ],
        proportional_p=math.nan,
        e_value=(math.nan, math.nan),
        common=False,
        other_draws=(),
        verdicts=precision,
    )


def without_lone_crude(public: Published) -> Published:
    """Hide the crude hazard ratio of a study that has no adjusted one.

    Alone it would be the study's result, though confounding may explain all of it.
    """
    if any(not line["note"] for line in public.hazard_ratios if line["analysis"] != "crude"):
        return public
    hazards = [
        {**line, **dict.fromkeys(EFFECT, math.nan), "note": LONE_CRUDE}
        if line["analysis"] == "crude" and not line["note"]
        else line
        for line in public.hazard_ratios
    ]
    return replace(public, hazard_ratios=hazards)


def _known(x: float) -> float | None:
    return None if math.isnan(x) else x


def equipoise_share(study: ComparativeStudy) -> float | Bound | None:
    """Share of people in equipoise; none where an arm is small, which that would tell."""
    rules, propensity = study.rules, study.propensity
    arms = study.attrition[["target", "comparator"]].iloc[-1]
    if propensity is None or any(rules.small(n) for n in arms):
        return None
    n = len(study.people)
    return rules.fraction(round(propensity.equipoise() * n), n)


def _lost(study: ComparativeStudy) -> Any:
    n = int(study.attrition["target"].iloc[-1])
    if not n or not study.matching_done:
        return None
    lost = study.rules.fraction(n - study.pairs, n)
    return lost if isinstance(lost, Bound) else _known(lost)
