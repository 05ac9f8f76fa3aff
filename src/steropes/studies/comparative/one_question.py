"""The comparative study of one question, run as a specification of one question is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.errors import DataError
from steropes.studies.cohorts.cohort_frame import People
from steropes.studies.comparative.covariate_balance import Balance, covariate_balance
from steropes.studies.comparative.outcome_analysis import AnalysisResult, Prepared
from steropes.studies.comparative.propensity_model import Propensity
from steropes.studies.comparative.propensity_scores import PropensityScores
from steropes.studies.comparative.question_cohorts import (
    attrition_table,
    emptied_arm,
    in_roles,
    make_question_cohorts,
)
from steropes.studies.comparative.score_matching import match_scores
from steropes.studies.comparative.sensitivity_analyses import (
    Beside,
    adjustment_table,
    follow_up_table,
)
from steropes.studies.comparative.settings import StudyAnalysis
from steropes.studies.comparative.study_specification import (
    ALTERNATIVES,
    CRUDE,
    MAIN,
    MATCHED,
    OUTCOME,
    ROLES,
)
from steropes.studies.comparative.tied_scores import TieOrders, tied_share, try_tie_orders
from steropes.studies.covariates.analysis_catalogue import ANALYSES
from steropes.studies.covariates.feature_extraction import Features
from steropes.studies.covariates.preprocessing import Tidied
from steropes.studies.database.data_notes import DataNote, distinct
from steropes.studies.database.omop import OmopDatabase, opened
from steropes.studies.diagnostics.comparative_diagnostics import Diagnostics, DiagnosticThresholds
from steropes.studies.diagnostics.convergence import convergence
from steropes.studies.disclosure import Bound, DisclosureRules, site_rules
from steropes.studies.execution.setting_types import (
    ConceptId,
    Count,
    Days,
    Folds,
    Listed,
    Name,
    Positive,
    RiskDays,
    Share,
    TimeZone,
    Whole,
    YesNo,
)
from steropes.studies.execution.settings_classes import Settings
from steropes.studies.outcomes.arm_summaries import arm_curves, incidence_rates
from steropes.studies.outcomes.outcome_summaries import detectable_ratio
from steropes.studies.outcomes.two_group_cox import TwoGroupCox
from steropes.studies.results.ratios import ratio_of

__all__ = ["ComparativeStudy", "StudyCovariates", "StudySettings", "comparative_study"]

DEMOGRAPHIC = {1: "sex", 3: "age", 6: "index year"}


class StudySettings(Settings):
    """Everything that decides the result of a study, besides the database.

    Parameters
    ----------
    target : int
        Concept id of the drug of interest: an ingredient, or a class of them.
    comparator : int
        Concept id of the drug to compare it with.
    outcome : int
        Concept id of the outcome, a condition.
    washout_days : int, default 365
        Days of observation required before the start.
    risk_days : int, optional
        Last day at risk, counted from the start. Default: the end of observation.
    descendants : bool, default True
        Also include the descendants of all these concepts and of those in ``exclude``. A vocabulary
        without the links for it is refused.
    window_days : int, default 365
        Covariates are records from this many days before the start up to the start.
    min_people : int, default 10
        Covariates of fewer people are dropped.
    min_share : float, default 0.001
        Covariates of a smaller share of people are dropped.
    exclude : tuple of int
        Concepts to leave out of the covariates.
    caliper : float, default 0.2
        Distances within a matched pair are below it, in standard deviations of the logit of the
        propensity score.
    folds : int, default 10
        Folds of the cross-validation that chooses the prior's variance.
    seed : int, default 1
        Seed of the folds and of the choice among people with equal scores.
    tie_orders : int, default 20
        Number of other orders of people with equal scores under which matching is repeated.
    min_cell : int, optional
        Smallest count to publish, if larger than that of the disclosure rules (5 by default).
    thresholds : DiagnosticThresholds
        Thresholds of the diagnostics, which decide whether the estimate is shown.
    unblind : bool, default False
        Show the estimate and the outcomes of the arms even if a diagnostic fails.
    schema : str, default "main"
        Schema of the CDM tables.
    time_zone : str, default "UTC"
        Time zone that determines the dates of stored instants.

    Examples
    --------
    >>> import steropes
    >>> settings = steropes.StudySettings(target=1118084, comparator=1124300, outcome=192671)
    >>> settings.washout_days, settings.caliper
    (365, 0.2)
    """

    target: ConceptId
    comparator: ConceptId
    outcome: ConceptId
    washout_days: Days = 365
    risk_days: RiskDays | None = None
    descendants: YesNo = True
    window_days: Days = 365
    min_people: Count = 10
    min_share: Share = 0.001
    exclude: Listed[ConceptId] = ()
    caliper: Positive = 0.2
    folds: Folds = 10
    seed: Count = 1
    tie_orders: Annotated[int, Whole(0, 10_000)] = 20
    min_cell: Count | None = None
    thresholds: DiagnosticThresholds = field(default_factory=DiagnosticThresholds)
    unblind: YesNo = False
    schema: Name = "main"
    time_zone: TimeZone = "UTC"

    def __post_init__(self) -> None:
        if self.target == self.comparator:
            raise DataError(f"target and comparator are the same concept, {self.target}")


@dataclass(frozen=True, repr=False)
class StudyCovariates:
    """The covariates of the propensity model of a study.

    Attributes
    ----------
    columns : DataFrame
        One row a covariate: ``covariate_id``, ``name``, ``domain``, ``concept_id``, ``people``.
    dropped : DataFrame
        One row a domain: ``domain``, ``kept``, ``rare`` (too few people), ``redundant``
        (everybody has it, or it follows from the others of its kind).
    features : Features
        Their values, of everybody whom the model was fitted to, in the order of ``columns``.
    """

    columns: pd.DataFrame
    dropped: pd.DataFrame
    features: Features

    def __repr__(self) -> str:
        return f"StudyCovariates({len(self.columns):,} columns)"

    @classmethod
    def of(cls, tidied: Tidied) -> StudyCovariates:
        """Read them off the covariates that the model was fitted to."""
        columns = tidied.features.columns.assign(
            domain=[_domain(a) for a in tidied.features.columns["analysis_id"]]
        )
        gone = tidied.dropped.assign(
            domain=[_domain(c % 1000) for c in tidied.dropped["covariate_id"]]
        )
        order = dict.fromkeys(_domain(a) for a in ANALYSES)
        lines = []
        for domain in (d for d in order if d in {*columns["domain"], *gone["domain"]}):
            why = gone.loc[gone["domain"] == domain, "why"]
            kept = int((columns["domain"] == domain).sum())
            counts = {w: int((why == w).sum()) for w in ("rare", "redundant")}
            lines.append({"domain": domain, "kept": kept, **counts})
        shown = ["covariate_id", "name", "domain", "concept_id", "people"]
        table = pd.DataFrame(lines, columns=["domain", "kept", "rare", "redundant"])
        return cls(columns[shown], table, tidied.features)

    @property
    def entries(self) -> int:
        """Values that are not zero, of all covariates."""
        return len(self.features.rows)


def _domain(analysis: int) -> str:
    """The kind of the covariates of an analysis."""
    found = ANALYSES[int(analysis)]
    return DEMOGRAPHIC.get(found.id, found.domain.lower())


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
        What the database calls itself.
    attrition : DataFrame
        People left, and dropped, by each rule in each arm.
    covariates : StudyCovariates or None
        ``columns``, ``dropped``. None if the study ended before.
    propensity : Propensity or None
        ``model``, ``auc``, ``coefficients`` … None if the study ended before.
    people : DataFrame
        One row a person, ordered by person id: ``person_id``, ``treated`` (1 target,
        0 comparator), ``start`` (index date), ``time`` (days at risk), ``event`` (1 if the first
        outcome falls in them), ``propensity``, ``preference`` and ``matched_set`` (−1 if none).
    balance : DataFrame or None
        Standardised mean differences of the model's covariates before and after matching, and how
        far matching ``moved`` the target arm.
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
    data_notes : tuple of DataNote
        Notes on the database, such as people whose observation periods were joined.
    rules : DisclosureRules
        What may be released of it.
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
        from steropes.studies.diagnostics.study_verdicts import NOT_SHOWN
        from steropes.studies.disclosure.study import WITHHELD, publish

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
        Drugs, outcome and all rules of the study.
    disclosure : str, optional
        The rules of disclosure that the owner of the data asks for: "ohdsi" (the default),
        "opensafely" or "none"; see `site_rules`.
    progress : callable, optional
        Called with a line of text as each step begins.

    Returns
    -------
    ComparativeStudy
        The study with its tables, diagnostics and estimates.

    Raises
    ------
    DataError
        A file, concept or setting that cannot be used, or a drug that nobody took.

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
        found = _Found.of(db, settings, say)
    people = found.people()
    matched = people[people["matched_set"] >= 0]
    main = found.results[MAIN]
    hazards = _hazard_ratios(found, settings)
    ties = None
    if found.propensity is not None:
        ties = _ties(people, found, settings, hazards, say)
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


@dataclass(frozen=True, repr=False, eq=False)
class _Found:
    """The results of the analyses of a study, and why it ended early.

    Attributes
    ----------
    results : dict of int to AnalysisResult
        By the id of the analysis.
    notes : tuple of DataNote
    ended : str
    """

    results: dict[int, AnalysisResult]
    notes: tuple[DataNote, ...]
    ended: str

    @classmethod
    def of(cls, db: OmopDatabase, settings: StudySettings, say: Callable[[str], None]) -> _Found:
        """Run the analyses of the specification, as those of grids are."""
        say("finding new users")
        made = make_question_cohorts(db, settings)
        bench, spec = made.bench, made.spec
        (question,) = spec.questions
        main, *others = spec.analyses
        comparison = bench.comparison(question, main)
        say("collecting covariates")
        bench.features(question, main)
        say("fitting the propensity model and matching")
        prepared = bench.prepared(question, main)
        say("estimating hazard ratios")
        results = {main.id: prepared.answer(OUTCOME)}
        for analysis in others:
            results[analysis.id] = _alternative(prepared, analysis).answer(OUTCOME)
        features = prepared.shared.features
        notes = (*comparison.notes, *(features.notes if features else ()))
        ended = emptied_arm(db, settings, results[CRUDE]) or prepared.shared.note
        return cls(results, distinct((*made.notes, *in_roles(notes))), ended)

    @property
    def scores(self) -> PropensityScores | None:
        """The propensity scores of everybody at risk of any outcome."""
        return None if self.ended else self.results[MAIN].shared.scores

    def people(self) -> pd.DataFrame:
        """Everybody at risk of the outcome, with their scores and matched sets."""
        people = pd.DataFrame(self.results[CRUDE].people)
        found = people[["person_id", "treated", "start", "time", "event"]].copy()
        found[["propensity", "preference"]] = np.nan
        found["matched_set"] = -1
        if self.scores is not None:
            place = self._place(people)
            found["propensity"] = self.scores.score[place]
            found["preference"] = self.scores.preference[place]
        matched = self.results[MAIN].people
        if self.scores is not None and "set" in matched:
            at = np.searchsorted(people["row"].to_numpy(), matched["row"].to_numpy())
            sets = found["matched_set"].to_numpy().copy()
            sets[at] = matched["set"].to_numpy()
            found["matched_set"] = sets
        return found.reset_index(drop=True)

    def _place(self, people: pd.DataFrame) -> NDArray:
        """Rows of people among those who have scores."""
        rows = self.results[MAIN].shared.population.people["row"].to_numpy()
        return np.searchsorted(rows, people["row"].to_numpy())

    @property
    def covariates(self) -> StudyCovariates | None:
        """Those of the propensity model."""
        return None if self.scores is None else StudyCovariates.of(self.scores.tidied)

    @property
    def propensity(self) -> Propensity | None:
        """The propensity model, with the scores of the people of the study."""
        scores = self.scores
        if scores is None:
            return None
        place = self._place(pd.DataFrame(self.results[CRUDE].people))
        return Propensity(
            model=scores.model,
            logit=scores.logit[place],
            score=scores.score[place],
            preference=scores.preference[place],
            auc=scores.auc,
            coefficients=scores.coefficients.rename(columns={"coefficient": "coef"})[
                ["name", "coef"]
            ],
            folds=scores.folds,
        )

    @property
    def balance(self) -> pd.DataFrame | None:
        """Balance of the covariates of the model, the most unequal before matching first."""
        if self.scores is None:
            return None
        people = self.people()
        matched = (people["matched_set"] >= 0).to_numpy()
        found = self.results[MAIN].balance or self._matched_balance(matched)
        table = found.table
        of_model = self.scores.tidied.features.columns["covariate_id"]
        table = table[table["covariate_id"].isin(of_model)]
        columns = {
            f"{arm}_{when}": table[f"{arm}_mean_{when}"]
            for when in ("before", "after")
            for arm in ("target", "comparator")
        }
        smd = {f"smd_{when}": table[f"smd_{when}"] for when in ("before", "after")}
        made = pd.DataFrame({**columns, **smd, "moved": table["target_smd"]})
        if not matched.any():
            made[[c for c in made if c.endswith("after") or c == "moved"]] = np.nan
        made.index = pd.Index(list(table["name"]), name="covariate")
        return made

    def _matched_balance(self, matched: NDArray) -> Balance:
        """Balance where there is no estimate, of those who are matched nevertheless."""
        people = self.results[CRUDE].people
        features = self.results[MAIN].shared.features
        assert features is not None
        return covariate_balance(
            features.take(people["row"].to_numpy()),
            people["treated"].to_numpy(),
            matched.astype(float) if matched.any() else np.ones(len(people)),
        )


def _alternative(prepared: Prepared, analysis: StudyAnalysis) -> Prepared:
    """Another analysis of the same scores, without a balance of its own."""
    shared = replace(prepared.shared, features=None, adjusted=None, balance=None)
    if analysis.propensity is None:
        shared = replace(shared, scores=None, note="")
    return replace(prepared, analysis=analysis, shared=shared)


def _hazard_ratios(found: _Found, settings: StudySettings) -> pd.DataFrame:
    """Without adjustment, among the matched, and within matched pairs."""
    lines = {"crude": CRUDE, "matched": MATCHED, "matched, stratified": MAIN}
    table = pd.DataFrame.from_dict(
        {name: _hazard_line(found.results[a]) for name, a in lines.items()}, orient="index"
    ).rename_axis("analysis")
    matched = found.results[MAIN].people
    if found.scores is None or "set" not in matched or matched.empty:
        why = found.ended or (
            f"no pair lies within the caliper of {settings.caliper:g} standard deviations, so the "
            "two groups are not comparable or the caliper is too small"
        )
        none = {**dict.fromkeys(("hr", "lower", "upper", "p", "log_hr", "se"), math.nan)}
        for name in ("matched", "matched, stratified"):
            for column, value in {**none, "people": 0, "events": 0, "note": why}.items():
                table.loc[name, column] = value
    return table.astype({"converged": object, "people": int, "events": int})


def _hazard_line(result: AnalysisResult) -> dict[str, Any]:
    """The hazard ratio of an analysis, or why there is none."""
    e = result.estimate
    none = bool(e.note)
    log_hr, lower, upper = (math.nan if none else x for x in (e.log_rr, e.lower, e.upper))
    return {
        "people": len(result.people),
        "events": sum(result.counts[f"{arm}_outcomes"] for arm in ("target", "comparator")),
        "hr": ratio_of(log_hr),
        "lower": ratio_of(lower),
        "upper": ratio_of(upper),
        "p": math.nan if none else e.p,
        "log_hr": log_hr,
        "se": math.nan if none else e.se,
        "note": e.note,
        "converged": None if none else e.converged,
    }


def _ties(
    people: pd.DataFrame,
    found: _Found,
    settings: StudySettings,
    hazards: pd.DataFrame,
    say: Callable[[str], None],
) -> TieOrders:
    """What other orders of equal scores would have given, if there is an estimate at all."""
    orders = 0 if hazards.loc["matched, stratified", "note"] else settings.tie_orders
    if orders:
        say("trying other orders of people with equal scores")
    rule = found.results[MAIN].analysis.match
    assert rule is not None
    score, treated = people["propensity"].to_numpy(), people["treated"].to_numpy()
    ids, time, event = (people[c].to_numpy() for c in ("person_id", "time", "event"))

    def estimate(seed: int) -> float:
        sets = match_scores(score, treated, replace(rule, seed=seed), ids=ids)
        kept = sets >= 0
        groups = TwoGroupCox.of(time[kept], event[kept], treated[kept], strata=sets[kept])
        return math.exp(groups.maximum())

    return try_tie_orders(score, estimate, settings.seed, orders)
