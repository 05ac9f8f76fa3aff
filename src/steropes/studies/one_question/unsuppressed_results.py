"""Results of a study of one question before small counts are suppressed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.plottable_result_tables import Curves, ResultTable, present
from steropes.designs.effects.events_and_curves_by_arm import arm_curves
from steropes.designs.propensity.fitted_propensity_model import Propensity
from steropes.designs.propensity.tied_scores import TieOrders
from steropes.studies.cohorts.people_frame_with_hidden_rows import People
from steropes.studies.comparative.supplementary_results import SupplementaryResults
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics
from steropes.studies.disclosure import DisclosureRules, applied_rules
from steropes.studies.one_question.question_analyses import StudyCovariates
from steropes.studies.one_question.study_result_rows import (
    ARMS,
    adjustment_lines,
    attrition_lines,
    balance_lines,
    follow_up_lines,
    hazard_lines,
    of_main,
    of_outcome,
    outcome_lines,
    rate_lines,
    result_lines,
)
from steropes.studies.results.comparative_result_rows import read_diagnostics
from steropes.studies.settings.frozen_protocol import ProtocolStatement
from steropes.studies.specifications.one_question_specification import CRUDE, MAIN
from steropes.studies.specifications.study_settings import StudySettings

__all__ = ["ExactStudy"]

HAZARD_RATIO = Interval("Hazard ratio", "hr", level=0.95)


@dataclass(frozen=True, repr=False)
class ExactStudy:
    """The exact tables of a study of one question, from which its release is made.

    `ComparativeStudy` describes the attributes.
    """

    settings: StudySettings
    names: dict[str, str]
    exact: Mapping[str, pd.DataFrame]
    people: pd.DataFrame
    covariates: StudyCovariates | None
    propensity: Propensity | None
    ties: TieOrders | None = None
    ended: str = ""
    data_notes: tuple[DataNote, ...] = ()
    rules: DisclosureRules = field(default_factory=DisclosureRules)
    protocol: ProtocolStatement | None = None

    @cached_property
    def _main(self) -> dict[str, pd.DataFrame]:
        """The exact tables of the main outcome."""
        return of_outcome(self.exact)

    @cached_property
    def outcomes(self) -> ResultTable:
        """Estimates of the main analysis for all outcomes and negative controls, indexed by name.

        Empty if the study has one outcome and no controls. ``role`` is "outcome" or "negative
        control", and ``passes`` is whether all diagnostics pass.
        """
        lines = outcome_lines(self.exact)
        table = pd.DataFrame(lines).set_index("outcome") if lines else pd.DataFrame()
        calibrated = ("calibrated_hr", "calibrated_lower", "calibrated_upper")
        return present(
            table,
            "ratio_forest",
            intervals=[HAZARD_RATIO, Interval("Calibrated", *calibrated, level=0.95)],
            captions={"calibrated_p": "Calibrated P value"},
            columns=HAZARD_RATIO[1:4],
            ratio=HAZARD_RATIO.caption,
        )

    @property
    def source(self) -> str | None:
        """Name of the database in its table ``cdm_source``."""
        return self.supplementary_results.source["name"]

    @cached_property
    def attrition(self) -> ResultTable:
        """People left, and dropped, by each rule in each arm, before matching."""
        table = pd.DataFrame(attrition_lines(self._main, CRUDE))
        arms = tuple(self.names[arm] for arm in ARMS)
        return present(table, "attrition", labels=["rule"], names=arms)

    @cached_property
    def balance(self) -> ResultTable | None:
        """Standardised mean differences of all covariates, the most unequal before first.

        ``moved`` is the difference of the target arm to that before matching. None if the study
        ended before.
        """
        if self.propensity is None:
            return None
        table = pd.DataFrame(balance_lines(self._main)).set_index("covariate")
        return present(table.astype(float), "love_plot")

    @cached_property
    def rates(self) -> ResultTable:
        """Events and incidence rates, indexed by ``analysis`` ("all" or "matched") and ``arm``."""
        table = pd.DataFrame(rate_lines(self._main)).set_index(["analysis", "arm"])
        limits = ("rate", "rate_lower", "rate_upper")
        shown = Interval("Events per 1,000 person-years", *limits, level=0.95)
        return present(table, "forest", intervals=[shown])

    @cached_property
    def hazard_ratios(self) -> ResultTable:
        """Hazard ratios, indexed by analysis: "crude", "matched", "matched, stratified".

        ``note`` gives the reason for a missing number, and ``converged`` is whether the fit
        converged (None without a fit).
        """
        table = pd.DataFrame(hazard_lines(self._main)).set_index("analysis")
        return present(
            table.drop(columns="estimand").astype({"converged": object}),
            "ratio_forest",
            intervals=[HAZARD_RATIO],
            hidden=["log_hr"],
            columns=HAZARD_RATIO[1:4],
            ratio=HAZARD_RATIO.caption,
        )

    @cached_property
    def supplementary_results(self) -> SupplementaryResults:
        """Other ways to adjust, the test of proportional hazards, follow-up and versions."""
        about = self.exact["database"].drop(columns="database_id").iloc[0]
        return SupplementaryResults(
            pd.DataFrame(adjustment_lines(self._main)),
            float(result_lines(self._main)[MAIN]["proportional_p"]),
            pd.DataFrame(follow_up_lines(self._main)),
            {str(name): value for name, value in about.items()},
        )

    @property
    def detectable(self) -> float:
        """Hazard ratio detectable with 80 % power among the matched."""
        return self.diagnostics.detectable

    @property
    def matched(self) -> pd.DataFrame:
        """The people who are in a matched set."""
        with applied_rules(self.rules):
            return People(self.people[self.people["set"] >= 0])

    @property
    def matching_done(self) -> bool:
        """Whether the study came as far as the matching."""
        return not self.ended

    @property
    def pairs(self) -> int:
        """Number of matched pairs."""
        return int((self.people["set"] >= 0).sum()) // 2

    @property
    def diagnostics(self) -> Diagnostics:
        """Whether the estimate may be looked at: the diagnostics of the main analysis.

        The systematic error is evaluated if there are enough negative controls.
        """
        line = result_lines(self._main)[MAIN]
        further = of_main(self._main, "further_diagnostic")
        values = dict(zip(further["diagnostic"], further["value"], strict=True))
        fewest = min(line[f"{arm}_outcomes"] for arm in ARMS)
        return read_diagnostics(
            {**line, "further": values, "fewest": fewest}, self.settings.thresholds
        )

    def curves(self) -> Curves[Any]:
        """Estimate the Kaplan–Meier curves of the matched people.

        Returns
        -------
        dict of str to KaplanMeier
            Curves of the ``target`` and the ``comparator``, if anybody is matched.
        """
        return Curves(arm_curves(self.matched), "survival_curves")
