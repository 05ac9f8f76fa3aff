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

if TYPE_CHECKING:
    from steropes.studies.comparative import ComparativeStudy
    from steropes.studies.diagnostics import Verdict
    from steropes.studies.disclosure.study import Published

__all__ = [
    "NOT_SHOWN",
    "NO_NOTE",
    "Judged",
    "blind",
    "equipoise_share",
    "judge",
]

NOT_SHOWN = "not shown: a diagnostic failed"
NO_NOTE = "no finite estimate, and not shown: a diagnostic failed"
EFFECT = ("hr", "lower", "upper", "p", "log_hr", "se")
OUTCOMES = ("events", "rate", "rate_lower", "rate_upper")


@dataclass(frozen=True)
class Judged:
    """A diagnostic with its verdict.

    Attributes
    ----------
    name : str
    value : float, Bound or None
        Rounded as far as small cells ask for; None where it could not be evaluated.
    rule : str
        What it takes to pass.
    verdict : {"PASS", "FAIL", "NOT EVALUATED"}
    hides : bool
        Whether an estimate that fails it is not shown.
    about : str
        What the value is of, where that can be told.
    """

    name: str
    value: float | Bound | None
    rule: str
    verdict: Verdict
    hides: bool = True
    about: str = ""


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
    d, t, rules = study.diagnostics, study.settings.thresholds, study.rules
    largest = None if study.balance is None else _largest(study)
    by_p = t.balance_p is not None
    unrounded = "" if rules.open else " before rounding"
    return [
        Judged(
            "largest standardised difference after matching",
            _known(_few(study, d.difference_p)) if by_p else largest,
            _rule("p at least", t.balance_p) if by_p else _rule("below", t.balance, unrounded),
            d.balance_verdict,
            about=d.worst_covariate if d.worst_covariate in named else "",
        ),
        Judged(
            "equipoise", equipoise_share(study), _rule("at least", t.equipoise), d.equipoise_verdict
        ),
        Judged(
            "minimum detectable hazard ratio",
            detectable,
            _rule("below", t.detectable),
            d.detectable_verdict,
        ),
        Judged(
            "generalisability: largest difference of the target to before matching",
            _known(_shift(study, d.generalizability)),
            _rule("below", t.generalizability),
            d.generalizability_verdict,
        ),
        Judged(
            "share of the target that matching left out",
            _lost(study),
            _rule("at most", t.attrition),
            d.attrition_verdict,
        ),
        Judged(
            "expected absolute systematic error",
            None,
            "needs negative controls: steropes grid",
            d.systematic_error_verdict,
        ),
        Judged(
            "precision: outcomes in the arm with fewer of them",
            None if math.isnan(d.fewest) else fewest,
            _rule("at least", t.outcomes),
            d.precision_verdict,
            hides=False,
        ),
        Judged(
            "share of matched people whose score others have too",
            None if math.isnan(d.tied) else _tied(study, d.tied),
            _rule("at most", t.tied),
            d.tied_verdict,
            hides=False,
        ),
    ]


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
    precision = [
        replace(v, value=None) if v.name.startswith("precision") else v for v in public.verdicts
    ]
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


def _known(x: float) -> float | None:
    return None if math.isnan(x) else x


def _rule(relation: str, threshold: float | None, unrounded: str = "") -> str:
    return "no threshold" if threshold is None else f"{relation} {threshold:g}{unrounded}"


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
