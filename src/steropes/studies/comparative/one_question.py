"""The comparative study from database to hazard ratio: the order of the steps, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.errors import DataError
from steropes.studies.balance import balance_table, largest_shift
from steropes.studies.beside import Beside, beside
from steropes.studies.cohorts import Cohort, CohortRules, describe_empty_arm, find_new_users
from steropes.studies.cohorts.cohort_frame import People
from steropes.studies.comparative.tied_scores import TieOrders, tied_share, try_tie_orders
from steropes.studies.covariates import (
    CovariateRules,
    Covariates,
    NothingLeftError,
    extract_covariates,
)
from steropes.studies.database.column_types import require_time_zone
from steropes.studies.database.data_notes import DataNote, distinct, explained
from steropes.studies.database.omop import OmopDatabase, RecordsOf, opened
from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics, DiagnosticThresholds
from steropes.studies.diagnostics.convergence import convergence, quiet_fits
from steropes.studies.disclosure import Bound, DisclosureRules, site_rules
from steropes.studies.effects import (
    arm_curves,
    hazard_ratio,
    incidence_rates,
    minimum_detectable_ratio,
)
from steropes.studies.execution.validation import real, text, whole, yes_or_no
from steropes.studies.matching import comparable_scores, match_propensity
from steropes.studies.propensity import Propensity, fit_propensity, too_few

__all__ = ["ComparativeStudy", "StudySettings", "comparative_study"]


@dataclass(frozen=True)
class StudySettings:
    """Everything that decides the result of a study, besides the database.

    Attributes
    ----------
    target, comparator, outcome : int
        Concept ids: two drugs (ingredients, or classes of them) and a condition.
    washout_days : int, default 365
        Days of observation required before the start.
    risk_days : int, optional
        Last day at risk, counted from the start. Default: the end of observation.
    descendants : bool, default True
        Whether all these concepts, and those in ``exclude``, stand for their descendants too. A
        vocabulary that lacks the links for it is refused.
    window_days : int, default 365
        Covariates come from this many days before the start through the start.
    min_people, min_share : default 10 and 0.001
        Covariates that fewer people or a smaller share have are dropped.
    exclude : tuple of int
        Concepts that are no covariates.
    caliper : float, default 0.2
        In standard deviations of the logit of the propensity score.
    folds : int, default 10
        Folds of the cross-validation that chooses the prior's variance.
    seed : int, default 1
        Seed of what is left to chance: the division into folds, and which of the people with
        equal scores are matched.
    tie_orders : int, default 20
        Other orders of people with equal scores to match again under, to see what they would
        have given.
    min_cell : int, optional
        A larger smallest count than that of the rules of disclosure that apply (5 by default):
        counts of fewer people, but not of none, are not released, nor what would give one away.
    thresholds : DiagnosticThresholds
        What the diagnostics must reach for the estimate to be shown.
    unblind : bool, default False
        Show the estimate, and the outcomes of the arms, though a diagnostic fails.
    schema : str, default "main"
        The schema of the database that holds the CDM tables; see `OmopDatabase`.
    time_zone : str, default "UTC"
        The time zone whose date counts where the database stores instants; see `OmopDatabase`.
    """

    target: int
    comparator: int
    outcome: int
    washout_days: int = 365
    risk_days: int | None = None
    descendants: bool = True
    window_days: int = 365
    min_people: int = 10
    min_share: float = 0.001
    exclude: tuple[int, ...] = ()
    caliper: float = 0.2
    folds: int = 10
    seed: int = 1
    tie_orders: int = 20
    min_cell: int | None = None
    thresholds: DiagnosticThresholds = field(default_factory=DiagnosticThresholds)
    unblind: bool = False
    schema: str = "main"
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        self.part(CohortRules)  # both check their own
        object.__setattr__(self, "exclude", self.part(CovariateRules).exclude)
        if self.target == self.comparator:
            raise DataError(f"target and comparator are the same concept, {self.target}")
        real("caliper", self.caliper)
        whole("folds", self.folds, 2)
        whole("seed", self.seed, 0)
        whole("tie_orders", self.tie_orders, 0, 10_000)
        if self.min_cell is not None:
            whole("min_cell", self.min_cell, 0)
        if not isinstance(self.thresholds, DiagnosticThresholds):
            raise DataError(f"thresholds must be DiagnosticThresholds, not {self.thresholds!r}")
        yes_or_no("unblind", self.unblind)
        text("schema", self.schema)
        require_time_zone(self.time_zone)

    def part(self, kind: type) -> Any:
        """The settings that ``kind``, another dataclass, has fields for."""
        return kind(**{f.name: getattr(self, f.name) for f in fields(kind)})


@dataclass(frozen=True, repr=False)
class ComparativeStudy:
    """A finished study; all tables are pandas DataFrames, exact, with small cells.

    Its ``repr`` names no person. The files of ``write`` hide small cells, and, as ``repr`` does,
    the estimate where a diagnostic fails (``settings.unblind`` shows it); the tables hide nothing.

    Attributes
    ----------
    settings : StudySettings
    names : dict
        Names of the ``target``, ``comparator`` and ``outcome`` concepts.
    source : str or None
        What the database calls itself.
    cohort : Cohort
        ``attrition`` and more.
    covariates : Covariates or None
        ``design``, ``columns``, ``dropped``. None if the study ended before.
    propensity : Propensity or None
        ``model``, ``auc``, ``coefficients`` … None if the study ended before.
    people : DataFrame
        The cohort's people with ``propensity``, ``preference`` and ``matched_set`` (−1 if none).
    balance : DataFrame or None
        Standardised mean differences before and after matching, covariate by covariate.
    rates : DataFrame
        Events and incidence rates, indexed by ``analysis`` ("all" or "matched") and ``arm``.
    hazard_ratios : DataFrame
        Indexed by analysis: "crude", "matched", "matched, stratified". ``note`` says why a number
        is missing, and ``converged`` whether the fit ended at its optimum (None without a fit).
    detectable : float
        Hazard ratio detectable with 80 % power among the matched.
    ties : TieOrders or None
        Equal scores, and the hazard ratios of other orders of the people who share them.
    ended : str
        Why the study ended before matching; empty if it did not.
    beside : Beside or None
        Other ways to adjust, the test of proportional hazards, follow-up and the database's
        versions.
    rules : DisclosureRules
        What may be released of it.
    """

    settings: StudySettings
    names: dict[str, str]
    source: str | None
    cohort: Cohort
    covariates: Covariates | None
    propensity: Propensity | None
    people: pd.DataFrame
    balance: pd.DataFrame | None
    rates: pd.DataFrame
    hazard_ratios: pd.DataFrame
    detectable: float
    ties: TieOrders | None = None
    ended: str = ""
    beside: Beside | None = None
    rules: DisclosureRules = field(default_factory=DisclosureRules)

    def __repr__(self) -> str:
        from steropes.studies.disclosure.study import WITHHELD, publish
        from steropes.studies.verdicts import NOT_SHOWN

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
    def attrition(self) -> pd.DataFrame:
        """People left, and dropped, by each rule in each arm."""
        return self.cohort.attrition

    @property
    def data_notes(self) -> tuple[DataNote, ...]:
        """Notes on the database, such as people whose observation periods were joined."""
        found = () if self.covariates is None else self.covariates.notes
        return distinct((*self.cohort.notes, *found))

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
            moved = largest_shift(self.balance)
        if self.propensity is not None and len(matched):
            score, _ = comparable_scores(self.propensity.logit)
            tied = tied_share(score[(self.people["matched_set"] >= 0).to_numpy()])[1]
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
        )

    @property
    def visible(self) -> bool:
        """Whether the estimate is shown: all diagnostics pass, or it was asked for."""
        return self.settings.unblind or self.diagnostics.unblind

    def curves(self) -> dict[str, Any]:
        """Kaplan–Meier curves of the matched ``target`` and ``comparator`` people, if any."""
        return arm_curves(self.matched)

    def to_dict(self) -> dict[str, Any]:
        """Every number of the study as plain Python values, ready for JSON; no small cells."""
        from steropes.studies.numbers import study_numbers

        return study_numbers(self)

    def write(self, folder: str | Path) -> list[Path]:
        """Write ``report.html`` and ``study.json`` to ``folder/release``; returns the two paths.

        The same is there as ``tables/*.csv`` and ``figures/*.svg``, with ``manifest.json``, which
        lists the files and the rules that were applied. All files appear, complete, or none.
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

    New-user cohort, covariates, propensity score by cross-validated lasso, 1:1 matching, balance,
    and Cox regression. The same input gives the same result every time.

    A study that cannot be brought to an end (an arm that a rule has emptied, no covariate, no pair
    within the caliper, no events) is returned as far as it came, without an estimate and with the
    reason.

    Parameters
    ----------
    database : str, Path, connection or OmopDatabase
        An OMOP CDM v5.x: whatever `OmopDatabase` opens (a DuckDB file, a folder of Parquet files,
        a URL, an open connection), or one that is open. It is only read.
    settings : StudySettings
    disclosure : str, optional
        The rules of disclosure that the owner of the data asks for: "ohdsi" (the default),
        "opensafely" or "none"; see `site_rules`.
    progress : callable, optional
        Called with a line of text as each step begins.

    Raises
    ------
    DataError
        A file, concept or setting that cannot be used, or a drug that nobody took.
    """
    say = progress or (lambda line: None)
    rules = site_rules(disclosure, settings.min_cell)
    say("opening the database")
    with opened(database, settings.schema, settings.time_zone) as db:
        names = {
            role: db.concept_name(getattr(settings, role))
            for role in ("target", "comparator", "outcome")
        }
        source = db.source_name()
        versions = db.provenance()
        cohort, covariates, ended = _collect(_of_users(db, settings), settings, say)

    people = cohort.people.copy()
    people[["propensity", "preference"]] = np.nan
    people["matched_set"] = -1
    propensity, balance, ties = None, None, None
    ended = ended or too_few(people["treated"])
    if covariates is not None and not ended:
        say(f"fitting the propensity model ({len(covariates.columns):,} covariates)")
        with quiet_fits():
            propensity = fit_propensity(
                covariates.design, people["treated"], folds=settings.folds, seed=settings.seed
            )
        people["propensity"] = propensity.score
        people["preference"] = propensity.preference
        say("matching")
        people["matched_set"] = _match(people, propensity, settings, settings.seed)
        balance = balance_table(
            covariates.design, covariates.columns["name"], people["treated"], people["matched_set"]
        )
    say("estimating hazard ratios")
    with quiet_fits():
        hazards = _hazard_ratios(people, settings, ended)
        if propensity is not None:
            ties = _ties(people, propensity, settings, hazards, say)
    say("adjusting in other ways")
    around = beside(people, versions, settings.seed)
    matched = people[people["matched_set"] >= 0]
    return ComparativeStudy(
        settings=settings,
        names=names,
        source=source,
        cohort=cohort,
        covariates=covariates,
        propensity=propensity,
        people=People(people),
        balance=balance,
        rates=pd.concat(
            {"all": incidence_rates(people), "matched": incidence_rates(matched)},
            names=["analysis"],
        ),
        hazard_ratios=hazards,
        detectable=minimum_detectable_ratio(matched),
        ties=ties,
        ended=ended,
        beside=around,
        rules=rules,
    )


def _of_users(db: OmopDatabase, settings: StudySettings) -> OmopDatabase:
    """The database as far as the users of either drug go."""
    drugs = [settings.target, settings.comparator]
    members = db.descendants(drugs) if settings.descendants else drugs
    return db.narrowed([RecordsOf("drug_era", "drug_concept_id", tuple(members))])


def _collect(
    db: OmopDatabase, settings: StudySettings, say: Callable[[str], None]
) -> tuple[Cohort, Covariates | None, str]:
    """The cohort, its covariates, and why there are none."""
    for concept_id in settings.exclude:
        db.concept_name(concept_id)  # refuses an unknown one
    say("finding new users")
    rules = settings.part(CohortRules)
    cohort = find_new_users(db, rules)
    empty = describe_empty_arm(db, rules, cohort.attrition)
    if empty and (cohort.attrition[["target", "comparator"]].iloc[0] == 0).any():
        raise DataError(explained(empty, cohort.notes))  # a wrong concept rather than a result
    if empty:
        return cohort, None, empty
    say("collecting covariates")
    try:
        return cohort, extract_covariates(db, cohort, settings.part(CovariateRules)), ""
    except NothingLeftError as error:
        return cohort, None, str(error)


def _match(
    people: pd.DataFrame, propensity: Propensity, settings: StudySettings, seed: int
) -> NDArray:
    return match_propensity(
        propensity.logit,
        people["treated"],
        settings.caliper,
        ids=people["person_id"],
        seed=seed,
    )


def _hazard_ratios(people: pd.DataFrame, settings: StudySettings, ended: str) -> pd.DataFrame:
    matched = people[people["matched_set"] >= 0]
    analyses = {
        "crude": hazard_ratio(people),
        "matched": hazard_ratio(matched),
        "matched, stratified": hazard_ratio(matched, strata=matched["matched_set"].to_numpy()),
    }
    if matched.empty:
        why = ended or (
            f"no pair lies within the caliper of {settings.caliper:g} standard deviations, so the "
            "two groups are not comparable or the caliper is too small"
        )
        for analysis in ("matched", "matched, stratified"):
            analyses[analysis]["note"] = why
    table = pd.DataFrame.from_dict(analyses, orient="index").rename_axis("analysis")
    return table.astype({"converged": object})


def _ties(
    people: pd.DataFrame,
    propensity: Propensity,
    settings: StudySettings,
    hazards: pd.DataFrame,
    say: Callable[[str], None],
) -> TieOrders:
    """What other orders of equal scores would have given, if there is an estimate at all."""
    main = "matched, stratified"
    orders = 0 if hazards.loc[main, "note"] else settings.tie_orders
    if orders:
        say("trying other orders of people with equal scores")

    def estimate(seed: int) -> float:
        sets = _match(people, propensity, settings, seed)
        kept = sets >= 0
        found = hazard_ratio(people[kept], strata=sets[kept])
        return float(found["hr"]) if found["converged"] else float("nan")

    score, _ = comparable_scores(propensity.logit)
    return try_tie_orders(score, estimate, settings.seed, orders)
