"""Whether a result may be looked at: diagnostics, their thresholds, and what follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from steropes.studies.execution.setting_types import Positive
from steropes.studies.execution.settings_classes import Settings

__all__ = ["DiagnosticThresholds", "Diagnostics", "Verdict"]

Verdict = Literal["PASS", "FAIL", "NOT EVALUATED"]


class DiagnosticThresholds(Settings):
    """What a diagnostic must reach for a result to be shown; None leaves it out.

    Parameters
    ----------
    detectable : float, default 10
        Largest minimum detectable ratio.
    systematic_error : float, default 0.25
        Largest expected absolute systematic error.
    balance : float, default 0.1
        Largest standardised difference after adjustment.
    balance_p : float, optional
        Smallest p value, over all covariates, that differences are within ``balance``; with it
        the largest difference itself has no say.
    equipoise : float, default 0.2
        Smallest share of people in equipoise.
    generalizability : float, default 999
        Largest standardised difference between the population of the estimand before and after.
    attrition : float, optional
        Largest share of the target that adjustment may drop.
    outcomes : float, default 5
        Fewest people of an arm with the outcome for the precision to pass.
    tied : float, default 0.1
        Largest share of matched people whose score others have too.

    The last two are told beside a result and do not hide it.
    """

    detectable: Positive | None = 10.0
    systematic_error: Positive | None = 0.25
    balance: Positive | None = 0.1
    balance_p: Positive | None = None
    equipoise: Positive | None = 0.2
    generalizability: Positive | None = 999.0
    attrition: Positive | None = None
    outcomes: Positive | None = 5.0
    tied: Positive | None = 0.1


@dataclass(frozen=True)
class Diagnostics:
    """The diagnostics of one estimate; NaN where one could not be evaluated.

    Attributes
    ----------
    largest_difference, difference_p : float
        Of the people of this outcome, after adjustment.
    shared_difference, shared_p : float
        The same among all who could be at risk, whatever the outcome.
    worst_covariate : str
        The covariate behind the largest difference.
    equipoise, detectable, generalizability, attrition, systematic_error : float
    comparator_attrition : float
        As ``attrition``, the share of the comparator that adjustment drops; without a verdict.
    tied : float
        Share of matched people whose score others have too: who of them was matched is a draw.
    fewest : float
        People with the outcome in the arm that has fewer of them.
    converged : bool or None
        Whether every fit behind the estimate ended at its optimum; None if nothing was fitted.
    unconverged : str
        Names of the fits that did not.
    adjusted : bool or None
        Whether anything adjusts the estimate; None where a crude comparison is what was asked.
    thresholds : DiagnosticThresholds
    """

    largest_difference: float = math.nan
    difference_p: float = math.nan
    shared_difference: float = math.nan
    shared_p: float = math.nan
    worst_covariate: str = ""
    equipoise: float = math.nan
    detectable: float = math.nan
    generalizability: float = math.nan
    attrition: float = math.nan
    comparator_attrition: float = math.nan
    systematic_error: float = math.nan
    tied: float = math.nan
    fewest: float = math.nan
    converged: bool | None = None
    unconverged: str = ""
    adjusted: bool | None = None
    thresholds: DiagnosticThresholds = field(default_factory=DiagnosticThresholds)

    @property
    def balance_verdict(self) -> Verdict:
        """Of the outcome's own balance."""
        return self._balanced(self.largest_difference, self.difference_p)

    @property
    def shared_balance_verdict(self) -> Verdict:
        """Of the shared balance."""
        return self._balanced(self.shared_difference, self.shared_p)

    @property
    def equipoise_verdict(self) -> Verdict:
        """Of the equipoise."""
        return _verdict(self.equipoise, self.thresholds.equipoise, least=True)

    @property
    def detectable_verdict(self) -> Verdict:
        """Of the minimum detectable ratio; an infinite one, as without any outcome, fails."""
        if math.isinf(self.detectable) and self.thresholds.detectable is not None:
            return "FAIL"
        return _verdict(self.detectable, self.thresholds.detectable, strict=True)

    @property
    def generalizability_verdict(self) -> Verdict:
        """Of the generalisability."""
        return _verdict(self.generalizability, self.thresholds.generalizability, strict=True)

    @property
    def attrition_verdict(self) -> Verdict:
        """Of the share of the target that was dropped."""
        return _verdict(self.attrition, self.thresholds.attrition)

    @property
    def systematic_error_verdict(self) -> Verdict:
        """Of the expected absolute systematic error."""
        return _verdict(abs(self.systematic_error), self.thresholds.systematic_error, strict=True)

    @property
    def precision_verdict(self) -> Verdict:
        """Whether both arms have enough people with the outcome."""
        return _verdict(self.fewest, self.thresholds.outcomes, least=True)

    @property
    def tied_verdict(self) -> Verdict:
        """Whether a draw among equal scores can have decided who was matched."""
        return _verdict(self.tied, self.thresholds.tied)

    @property
    def convergence_verdict(self) -> Verdict:
        """Verdict on the convergence of the fits behind the estimate."""
        return _held(self.converged)

    @property
    def adjustment_verdict(self) -> Verdict:
        """Verdict on the adjustment: a crude estimate answers no question about confounded arms."""
        return _held(self.adjusted)

    @property
    def unblind_for_calibration(self) -> bool:
        """Whether a negative control's estimate may serve to calibrate others.

        Crude estimates may: controls tell how wrong a crude analysis is.
        """
        return "FAIL" not in (
            self.convergence_verdict,
            self.balance_verdict,
            self.shared_balance_verdict,
            self.equipoise_verdict,
            self.generalizability_verdict,
            self.attrition_verdict,
        )

    @property
    def unblind_for_evidence_synthesis(self) -> bool:
        """Whether the estimate may be combined with those of other databases."""
        return self.unblind_for_calibration and "FAIL" not in (
            self.systematic_error_verdict,
            self.adjustment_verdict,
        )

    @property
    def unblind(self) -> bool:
        """Whether the estimate may be looked at."""
        return self.unblind_for_evidence_synthesis and self.detectable_verdict != "FAIL"

    def _balanced(self, largest: float, p: float) -> Verdict:
        if self.thresholds.balance_p is not None:
            return _verdict(p, self.thresholds.balance_p, least=True)
        return _verdict(largest, self.thresholds.balance, strict=True)


def _held(fact: bool | None) -> Verdict:
    return "NOT EVALUATED" if fact is None else "PASS" if fact else "FAIL"


def _verdict(
    value: float, threshold: float | None, *, least: bool = False, strict: bool = False
) -> Verdict:
    if threshold is None or math.isnan(value):
        return "NOT EVALUATED"
    good = value >= threshold if least else value < threshold if strict else value <= threshold
    return "PASS" if good else "FAIL"
