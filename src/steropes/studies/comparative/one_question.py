"""Comparative studies of one question, run by the steps of a grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from steropes.studies.cohorts.private_people_frame import People
from steropes.studies.comparative.propensity_model import Propensity
from steropes.studies.comparative.question_analyses import (
    QuestionAnalyses,
    StudyCovariates,
    hazard_table,
    tie_orders,
)
from steropes.studies.comparative.question_cohorts import (
    attrition_table,
)
from steropes.studies.comparative.sensitivity_analyses import (
    Beside,
    adjustment_table,
    follow_up_table,
)
from steropes.studies.comparative.study_settings import StudySettings
from steropes.studies.comparative.study_specification import (
    ALTERNATIVES,
    CRUDE,
    MAIN,
    ROLES,
)
from steropes.studies.comparative.tied_scores import TieOrders, tied_share
from steropes.studies.database.data_notes import DataNote
from steropes.studies.database.omop import OmopDatabase, opened
from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics
from steropes.studies.diagnostics.convergence import convergence
from steropes.studies.disclosure import Bound, DisclosureRules, site_rules
from steropes.studies.outcomes.arm_summaries import arm_curves, incidence_rates
from steropes.studies.outcomes.outcome_summaries import detectable_ratio

__all__ = ["ComparativeStudy", "comparative_study"]


@dataclass(frozen=True, repr=False)
class ComparativeStudy:
    """A finished study; all tables are pandas DataFrames, exact, with small cells.

    Its ``repr`` names no person. The files of ``write`` hide small cells, and, as ``repr`` does,
    the estimate where a diagnostic fails (``settings.unblind`` shows it); the tables hide nothing.

    Attributes
    ----------
    settings : StudySettings
        The settings of the study.
    names : dict
        Names of the ``target``, ``comparator`` and ``outcome`` concepts.
    source : str or None
        Name of the database in its table ``cdm_source``.
    attrition : DataFrame
        People left, and dropped, by each rule in each arm.
    covariates : StudyCovariates or None
        ``columns``, ``dropped``. None if the study ended before.
    propensity : Propensity or None
        ``model``, ``auc``, ``coefficients`` … None if the study ended before.
    people : DataFrame
        One row per person, ordered by person id: ``person_id``, ``treated`` (1 target,
        0 comparator), ``start`` (index date), ``time`` (days at risk), ``event`` (1 if the first
        outcome falls in them), ``propensity``, ``preference`` and ``matched_set`` (−1 if none).
    balance : DataFrame or None
        Standardised mean differences of the model's covariates before and after matching, and how
        far matching ``moved`` the target arm.
    rates : DataFrame
        Events and incidence rates, indexed by ``analysis`` ("all" or "matched") and ``arm``.
    hazard_ratios : DataFrame
        Indexed by analysis: "crude", "matched", "matched, stratified". ``note`` gives the reason
        for a missing number, and ``converged`` is whether the fit converged (None without a fit).
    detectable : float
        Hazard ratio detectable with 80 % power among the matched.
    ties : TieOrders or None
        Equal scores, and the hazard ratios of other orders of the people who share them.
    ended : str
        Reason why the study ended before matching; empty if it did not.
    beside : Beside or None
        Other ways to adjust, the test of proportional hazards, follow-up and the database's
        versions.
    data_notes : tuple of DataNote
        Notes on the database, such as people whose observation periods were joined.
    rules : DisclosureRules
        Disclosure rules for the release of results.
    further : mapping of str to float
        Values of further diagnostics by key.

    See Also
    --------
    comparative_study : Run a study.

    Examples
    --------
    >>> import steropes
    >>> from steropes.studies import DEMO, synthetic_database
    >>> settings = steropes.StudySettings(**DEMO, folds=5, tie_orders=0)
    >>> study = steropes.comparative_study(synthetic_database(600), settings)
    >>> study.hazard_ratios.index.tolist()
    ['crude', 'matched', 'matched, stratified']
    >>> study.pairs == len(study.matched) // 2
    True
    """

    settings: StudySettings
    names: dict[str, str]
    source: str | None
    attrition: pd.DataFrame
    covariates: StudyCovariates | None
    propensity: Propensity | None
    people: pd.DataFrame
    balance: pd.DataFrame | None
    rates: pd.DataFrame
    hazard_ratios: pd.DataFrame
    detectable: float
    ties: TieOrders | None = None
    ended: str = ""
    beside: Beside | None = None
    data_notes: tuple[DataNote, ...] = ()
    rules: DisclosureRules = field(default_factory=DisclosureRules)
    further: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
        from steropes.studies.disclosure.one_question_release import WITHHELD, publish

        public = publish(self)
        line = next(h for h in public.hazard_ratios if h["analysis"] == "matched, stratified")
        found = f"hazard ratio {line['hr']:.2f} ({line['lower']:.2f} to {line['upper']:.2f})"
        if line["note"]:
            found = line["note"] if line["note"] in (NOT_SHOWN, WITHHELD) else "no estimate"
        pairs = public.pairs if isinstance(public.pairs, Bound) else f"{public.pairs:,}"
        return (
            f"ComparativeStudy({self.names['target']} against {self.names['comparator']}, "
            f"{self.names['outcome']}: {pairs} matched pairs, {found})"
        )

    @property
    def matched(self) -> pd.DataFrame:
        """The people who are in a matched set."""
        return People(self.people[self.people["matched_set"] >= 0])

    @property
    def matching_done(self) -> bool:
        """Whether the study came as far as the matching."""
        return not self.ended

    @property
    def pairs(self) -> int:
        """Number of matched pairs."""
        return int((self.people["matched_set"] >= 0).sum()) // 2

    @property
    def diagnostics(self) -> Diagnostics:
        """Whether the estimate may be looked at, by the rule that grids have.

        What all outcomes share and the systematic error are not evaluated: there is one outcome,
        and no negative control.
        """
        nan = float("nan")
        matched = self.matched
        arms = self.attrition[["target", "comparator"]].iloc[-1]
        lost = [1 - self.pairs / int(n) if n and self.matching_done else nan for n in arms]
        largest, worst, moved, tied = nan, "", nan, nan
        if self.balance is not None and len(matched):
            after = self.balance["smd_after"].abs()
            largest, worst = float(after.max()), str(after.idxmax())
            moved = float(self.balance["moved"].abs().max())
        if self.propensity is not None and len(matched):
            tied = tied_share(matched["propensity"])[1]
        ended = [c for c in self.hazard_ratios["converged"] if c is not None]
        converged, unconverged = convergence(
            propensity_model=None if self.propensity is None else self.propensity.converged,
            outcome_model=all(ended) if ended else None,
        )
        return Diagnostics(
            largest_difference=largest,
            worst_covariate=worst,
            equipoise=nan if self.propensity is None else self.propensity.equipoise(),
            detectable=self.detectable,
            generalizability=moved,
            attrition=lost[0],
            comparator_attrition=lost[1],
            tied=tied,
            fewest=float(self.rates.loc["matched", "events"].min()),
            converged=converged,
            unconverged=unconverged,
            thresholds=self.settings.thresholds,
            further=self.further,
        )

    @property
    def visible(self) -> bool:
        """Whether the estimate is shown: all diagnostics pass, or it was asked for."""
        return self.settings.unblind or self.diagnostics.unblind

    def curves(self) -> dict[str, Any]:
        """Estimate the Kaplan–Meier curves of the matched people.

        Returns
        -------
        dict of str to KaplanMeier
            Curves of the ``target`` and the ``comparator``, if anybody is matched.
        """
        return arm_curves(self.matched)

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the study as plain values, without small counts.

        Returns
        -------
        dict
            Values that can be written as JSON.
        """
        from steropes.studies.report.study_numbers import study_numbers

        return study_numbers(self)

    def write(self, folder: str | Path) -> list[Path]:
        """Write the report and the numbers of the study for release.

        Parameters
        ----------
        folder : str or Path
            Folder in which the folder ``release`` is made: ``report.html``, ``study.json``, the
            same as ``tables/*.csv`` and ``figures/*.svg``, and ``manifest.json``, which lists the
            files and the rules that were applied. All files appear, complete, or none.

        Returns
        -------
        list of Path
            The paths of ``report.html`` and ``study.json``.
        """
        from steropes.studies.report.study_report import write_report

        return write_report(self, folder)


def comparative_study(
    database: str | Path | OmopDatabase | Any,
    settings: StudySettings,
    *,
    disclosure: str | DisclosureRules | None = None,
    progress: Callable[[str], None] | None = None,
) -> ComparativeStudy:
    """Compare an outcome between new users of two drugs in an OMOP database.

    The study builds a new-user cohort and its covariates, fits propensity scores by a
    cross-validated lasso, matches pairs, and compares the hazards by Cox regression. The same input
    gives the same result every time.

    A study that cannot be completed (a rule leaves an arm empty, there is no covariate, no pair
    within the caliper, or no event) is returned with the steps that were possible, without an
    estimate and with the reason.

    Parameters
    ----------
    database : str, Path, connection or OmopDatabase
        An OMOP CDM v5.x that `OmopDatabase` can open (a DuckDB file, a folder of Parquet files, a
        URL, an open connection), or an open `OmopDatabase`. It is never modified.
    settings : StudySettings
        Drugs, outcome and all rules of the study.
    disclosure : str, optional
        Disclosure rules that the owner of the data requires: "ohdsi" (the default), "opensafely" or
        "none"; see `site_rules`.
    progress : callable, optional
        Called with a line of text at the start of each step.

    Returns
    -------
    ComparativeStudy
        The study with its tables, diagnostics and estimates.

    Raises
    ------
    DataError
        A file, concept or setting cannot be used, or a drug has no users.

    See Also
    --------
    case_series : Self-controlled case series.
    run_grid : Many questions, outcomes and analyses.

    Examples
    --------
    >>> import steropes
    >>> from steropes.studies import DEMO, synthetic_database
    >>> settings = steropes.StudySettings(**DEMO, folds=5, tie_orders=0)
    >>> study = steropes.comparative_study(synthetic_database(600), settings)
    >>> study.names["target"], study.matching_done
    ('celecoxib', True)
    """
    say = progress or (lambda line: None)
    rules = site_rules(disclosure, settings.min_cell)
    say("opening the database")
    with opened(database, settings.schema, settings.time_zone) as db:
        names = {role: db.concept_name(getattr(settings, role)) for role in ROLES}
        source = db.source_name()
        versions = db.provenance()
        found = QuestionAnalyses.run(db, settings, say)
    people = found.people()
    matched = people[people["matched_set"] >= 0]
    main = found.results[MAIN]
    hazards = hazard_table(found, settings)
    ties = None
    if found.propensity is not None:
        ties = tie_orders(people, found, settings, hazards, say)
    return ComparativeStudy(
        settings=settings,
        names=names,
        source=source,
        attrition=attrition_table(found.results[CRUDE]),
        covariates=found.covariates,
        propensity=found.propensity,
        people=People(people),
        balance=found.balance,
        rates=pd.concat(
            {"all": incidence_rates(people), "matched": incidence_rates(matched)},
            names=["analysis"],
        ),
        hazard_ratios=hazards,
        detectable=detectable_ratio(matched),
        ties=ties,
        ended=found.ended,
        beside=Beside(
            adjustment_table(
                [] if found.propensity is None else [found.results[a] for a in ALTERNATIVES]
            ),
            math.nan if matched.empty else main.estimate.proportional_p,
            follow_up_table(people),
            versions,
        ),
        data_notes=found.notes,
        rules=rules,
        further=main.diagnostics.further,
    )
