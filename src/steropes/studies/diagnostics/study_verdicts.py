"""The diagnostics of a one-question study, with released values that agree with the verdicts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steropes.studies.diagnostics import diagnostic_catalogue as catalogue
from steropes.studies.diagnostics.diagnostic_catalogue import Diagnostic
from steropes.studies.disclosure import Bound
from steropes.studies.disclosure.rounding import significant, smd_unit, to_unit
from steropes.studies.report.digits import passes

if TYPE_CHECKING:
    from steropes.studies.comparative.one_question import ComparativeStudy
    from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics, Verdict

__all__ = [
    "Judged",
    "equipoise_share",
    "judge",
]

OF_GRIDS = ("shared balance", "adjustment")  # One question has one outcome, and adjusts.


@dataclass(frozen=True)
class Judged:
    """A diagnostic with its verdict.

    Attributes
    ----------
    key : str
        As in `DIAGNOSTICS`.
    name : str
    value : float, Bound or None
        Rounded as far as small cells require; None where it is withheld or was not evaluated. Where
        rounding would move it across the threshold, it is a bound that agrees with the verdict.
    rule : str
        The condition for passing.
    verdict : {"PASS", "FAIL", "NOT EVALUATED"}
    hides : bool
        Whether an estimate that fails it is not shown.
    about : str
        The covariate or model to which the value belongs, if that may be released.
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
    """Judge all diagnostics of a study.

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
    d = study.diagnostics
    by_p = study.settings.thresholds.balance_p is not None
    released: dict[str, float | Bound | None] = {
        "balance": _known(_few(study, d.difference_p)) if by_p else _largest(study),
        "equipoise": equipoise_share(study),
        "detectable": detectable,
        "generalizability": _known(_shift(study, d.generalizability)),
        "attrition": _lost(study),
        "precision": None if math.isnan(d.fewest) else fewest,
        "ties": None if math.isnan(d.tied) else _tied(study, d.tied),
    }
    smaller = min(study.pairs, len(study.people))
    for name, value in d.further.items():
        released[name] = _known(study.rules.stepped(value, smaller))
    about = {
        "balance": d.worst_covariate if d.worst_covariate in named else "",
        "convergence": d.unconverged,
    }
    return [
        _judged(one.chosen(d.thresholds), d, released.get(one.key), about.get(one.key, ""))
        for one in catalogue.DIAGNOSTICS
        if one.key not in OF_GRIDS
    ]


def _judged(
    declared: Diagnostic, d: Diagnostics, value: float | Bound | None, about: str
) -> Judged:
    """Judge a diagnostic, with a value that agrees with the verdict however it was rounded."""
    verdict, threshold = d.verdict(declared.key), declared.limit(d.thresholds)
    if declared.need:
        threshold = None
    known = isinstance(value, float) and math.isfinite(value)
    if known and verdict != "NOT EVALUATED" and threshold is not None:
        assert declared.relation is not None
        assert isinstance(value, float)
        passed = verdict == "PASS"
        if passes(value, declared.relation, threshold) != passed:
            value = Bound(threshold, above=passed == (declared.relation == "at least"))
    return Judged(
        declared.key,
        declared.name,
        value,
        declared.rule(d.thresholds),
        verdict,
        declared.guards != "nothing",
        about,
        threshold,
    )


def _largest(study: ComparativeStudy) -> float | None:
    """Return the released largest standardised difference after matching."""
    from steropes.studies.disclosure.one_question_release import largest_differences

    return largest_differences(study)["after"]


def _few(study: ComparativeStudy, p: float) -> float:
    """Round a p value to two digits, unless everything is released."""
    return p if study.rules.open else significant(p, 2)


def _shift(study: ComparativeStudy, smd: float) -> float:
    """Round the change of the target by matching so that it does not reveal a prevalence."""
    if study.rules.open:
        return smd
    return to_unit(smd, smd_unit(0.5, 0.5, max(study.pairs, 1), study.rules.least))


def _tied(study: ComparativeStudy, share: float) -> float | Bound | None:
    """Return the released share of the matched with tied scores."""
    n = len(study.matched)
    found = study.rules.fraction(round(share * n), n)
    return found if isinstance(found, Bound) else _known(found)


def _known(x: float) -> float | None:
    """Convert NaN to None."""
    return None if math.isnan(x) else x


def equipoise_share(study: ComparativeStudy) -> float | Bound | None:
    """Return the released share in equipoise; None if an arm is small, as it would reveal this."""
    rules, propensity = study.rules, study.propensity
    arms = study.attrition[["target", "comparator"]].iloc[-1]
    if propensity is None or any(rules.small(n) for n in arms):
        return None
    n = len(study.people)
    return rules.fraction(round(propensity.equipoise() * n), n)


def _lost(study: ComparativeStudy) -> Any:
    """Return the released share of the target that has no match; None without matching."""
    n = int(study.attrition["target"].iloc[-1])
    if not n or not study.matching_done:
        return None
    lost = study.rules.fraction(n - study.pairs, n)
    return lost if isinstance(lost, Bound) else _known(lost)
