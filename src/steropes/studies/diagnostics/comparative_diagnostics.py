"""The diagnostics of an estimate, their thresholds, and the uses that they allow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steropes.data.diagnostic_limits import (
    DETECTABLE_RATIO,
    EQUIPOISE,
    IMBALANCE,
    SYSTEMATIC_ERROR,
    TIED,
)
from steropes.data.html_representations import FieldsInHtml
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Positive
from steropes.studies.diagnostics.diagnostic import Diagnostic, Guards, Verdict, Word, allows
from steropes.studies.diagnostics.diagnostic_catalogue import Further, declared_diagnostics

__all__ = ["DiagnosticThresholds", "Diagnostics"]


class DiagnosticThresholds(Settings):
    """Limits that diagnostics must reach for a result to be shown; None leaves one out.

    ``outcomes`` and ``tied`` are reported with a result and do not hide it.

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
        the largest difference itself does not count.
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
    further : tuple of str
        Further diagnostics: functions as ``module:function``, which `register_diagnostic`
        decorates. Every process of a run imports the modules, which therefore must be installed or
        in a folder of PYTHONPATH.

    Examples
    --------
    >>> from steropes.studies.diagnostics import DiagnosticThresholds
    >>> DiagnosticThresholds(balance=0.05).equipoise
    0.2
    """

    detectable: Positive | None = DETECTABLE_RATIO
    systematic_error: Positive | None = SYSTEMATIC_ERROR
    balance: Positive | None = IMBALANCE
    balance_p: Positive | None = None
    equipoise: Positive | None = EQUIPOISE
    generalizability: Positive | None = 999.0
    attrition: Positive | None = None
    outcomes: Positive | None = 5.0
    tied: Positive | None = TIED
    further: Further = ()

    @property
    def shown_balance(self) -> float:
        """The limit of tables and figures of balance, also where none decides."""
        return IMBALANCE if self.balance is None else self.balance


@dataclass(frozen=True)
class Diagnostics(FieldsInHtml):
    """The diagnostics of one estimate; NaN where one could not be evaluated.

    Attributes
    ----------
    largest_difference : float
        Largest standardised difference of a covariate between the people of this outcome, after
        adjustment.
    difference_p : float
        Smallest p-value of these differences.
    shared_difference : float
        Largest difference among all who could be at risk, whatever the outcome.
    shared_p : float
        Smallest p-value of these differences.
    worst_covariate : str
        The covariate with the largest difference.
    equipoise : float
        Share of people in equipoise.
    detectable : float
        Minimum detectable ratio.
    generalizability : float
        Largest standardised difference between the population of the estimand before and after.
    attrition : float
        Share of the target that adjustment drops.
    comparator_attrition : float
        Share of the comparator that adjustment drops; it has no verdict.
    systematic_error : float
        Expected absolute systematic error.
    tied : float
        Share of matched people whose score others have too: who of them was matched is a draw.
    fewest : float
        People with the outcome in the arm that has fewer of them.
    converged : bool or None
        Whether every fit behind the estimate ended at its optimum; None if nothing was fitted.
    unconverged : str
        Names of the fits that did not.
    adjusted : bool or None
        Whether anything adjusts the estimate; None if a crude comparison was requested.
    thresholds : DiagnosticThresholds
        Thresholds of the verdicts.
    further : mapping of str to float
        Values of further diagnostics by key.

    Examples
    --------
    >>> from steropes.studies.diagnostics import Diagnostics
    >>> Diagnostics(largest_difference=0.25).balance_verdict
    'FAIL'
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
    further: Mapping[str, float] = field(default_factory=dict)

    def verdict(self, key: str) -> Word:
        """Return the verdict on a diagnostic.

        Parameters
        ----------
        key : str
            Name of the diagnostic, such as "balance".

        Returns
        -------
        str
            "PASS", "FAIL" or "NOT EVALUATED".
        """
        chosen = next(d for d in self._declared if d.key == key)
        return chosen.word(self._value(chosen), self.thresholds)

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdicts by key, with their values and limits."""
        found = {}
        for d in self._declared:
            value = None if d.relation is None else self._value(d)
            word = self.verdict(d.key)
            found[d.key] = d.judged(word, self.thresholds, value=value, about=self._about(d.key))
        return found

    @property
    def _declared(self) -> tuple[Diagnostic, ...]:
        """The diagnostics, in the variants that the thresholds choose."""
        declared = declared_diagnostics(self.thresholds, "comparative")
        return tuple(d.chosen(self.thresholds) for d in declared)

    def _value(self, chosen: Diagnostic) -> Any:
        """Return the value of a diagnostic."""
        return getattr(self, chosen.value) if chosen.value else self.further.get(chosen.key)

    def _about(self, key: str) -> str:
        """Return the covariate or model that a value is about."""
        return {"balance": self.worst_covariate, "convergence": self.unconverged}.get(key, "")

    @property
    def balance_verdict(self) -> Word:
        """Verdict on the balance among the people of the outcome."""
        return self.verdict("balance")

    @property
    def shared_balance_verdict(self) -> Word:
        """Verdict on the balance among all who could be at risk."""
        return self.verdict("shared balance")

    @property
    def equipoise_verdict(self) -> Word:
        """Verdict on the equipoise."""
        return self.verdict("equipoise")

    @property
    def detectable_verdict(self) -> Word:
        """Verdict on the minimum detectable ratio, which is infinite without any outcome."""
        return self.verdict("detectable")

    @property
    def generalizability_verdict(self) -> Word:
        """Verdict on the generalisability."""
        return self.verdict("generalizability")

    @property
    def attrition_verdict(self) -> Word:
        """Verdict on the share of the target that was dropped."""
        return self.verdict("attrition")

    @property
    def systematic_error_verdict(self) -> Word:
        """Verdict on the expected absolute systematic error."""
        return self.verdict("systematic error")

    @property
    def precision_verdict(self) -> Word:
        """Verdict on the number of people with the outcome in each arm."""
        return self.verdict("precision")

    @property
    def tied_verdict(self) -> Word:
        """Verdict on tied scores, among which a draw can have decided who was matched."""
        return self.verdict("ties")

    @property
    def convergence_verdict(self) -> Word:
        """Verdict on the convergence of the fits behind the estimate."""
        return self.verdict("convergence")

    @property
    def adjustment_verdict(self) -> Word:
        """Verdict on the adjustment: a crude estimate answers no question about confounded arms."""
        return self.verdict("adjustment")

    @property
    def unblind_for_calibration(self) -> bool:
        """Whether a negative control's estimate may serve to calibrate others.

        Crude estimates may: controls show the error of a crude analysis.
        """
        return self._allows("calibration")

    @property
    def unblind_for_evidence_synthesis(self) -> bool:
        """Whether the estimate may be combined with those of other databases."""
        return self._allows("synthesis")

    @property
    def unblind(self) -> bool:
        """Whether the estimate may be shown."""
        return self._allows("viewing")

    def _allows(self, use: Guards) -> bool:
        """Check that no diagnostic rules out a use of the estimate."""
        words = ((d.guards, d.word(self._value(d), self.thresholds)) for d in self._declared)
        return allows(use, words)
