"""The run of a study of one question: people, covariates, scores, analyses and result tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.backends.blas_threads import single_threaded_blas
from steropes.designs.covariates.covariates_by_column import Covariates
from steropes.designs.covariates.preprocessing import Tidied
from steropes.designs.effects.effect_estimate_result import Estimate
from steropes.designs.effects.two_group_cox import TwoGroupCox
from steropes.designs.propensity.covariate_balance import Balance, covariate_balance
from steropes.designs.propensity.fitted_propensity_model import Propensity
from steropes.designs.propensity.propensity_score_fit import PropensityScores
from steropes.designs.propensity.score_matching import OrderedScores
from steropes.designs.propensity.tied_scores import TieOrders, try_tie_orders
from steropes.models.fitting.progress_messages import counted_steps
from steropes.studies.comparative.analysis_of_one_outcome import Prepared
from steropes.studies.comparative.analysis_result import AnalysisResult
from steropes.studies.comparative.grid_questions_and_analyses import StudyAnalysis
from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES
from steropes.studies.database.data_quality_notes import DataNote, distinct
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.execution.result_store import ResultStore
from steropes.studies.execution.resumable_steps import REFUSED, Tables, run_in_processes
from steropes.studies.one_question.question_cohorts import (
    QuestionCohorts,
    emptied_arm,
    in_roles,
    make_question_cohorts,
)
from steropes.studies.result_files.table_layouts import EXACT, EXACT_KEYS
from steropes.studies.results.calibrated_results import calibrate_grid
from steropes.studies.results.comparative_result_rows import (
    outcome_tables,
    refused_tables,
    result_key,
    specification_tables,
)
from steropes.studies.results.tables_shared_by_outcomes import shared_tables
from steropes.studies.specifications.grid_specification import GridSpec
from steropes.studies.specifications.one_question_specification import (
    COMPARATOR,
    CRUDE,
    MAIN,
    MATCHED,
    OUTCOME,
    TARGET,
)
from steropes.studies.specifications.study_settings import StudySettings

SHIFTS = ("target_smd", "comparator_smd", "both_smd")  # Differences of arms to before matching.
DEMOGRAPHIC = {1: "sex", 3: "age", 6: "index year"}

__all__ = ["QuestionAnalyses", "StudyCovariates", "collect_people", "tie_orders"]


@dataclass(frozen=True, repr=False)
class StudyCovariates:
    """The covariates of the propensity model of a study.

    Attributes
    ----------
    columns : DataFrame
        One row a covariate: ``covariate_id``, ``name``, ``domain``, ``concept_id``, ``people``.
    dropped : DataFrame
        One row a domain: ``domain``, ``kept``, ``rare`` (too few people), ``redundant``
        (all people have it, or it follows from others of the same kind).
    features : Covariates
        Covariate values of all people in the model, in the order of ``columns``.
    """

    columns: pd.DataFrame
    dropped: pd.DataFrame
    features: Covariates

    def __repr__(self) -> str:
        return f"StudyCovariates({len(self.columns):,} columns)"

    @classmethod
    def of(cls, tidied: Tidied) -> StudyCovariates:
        """Describe the covariates to which the model was fitted."""
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
        """Number of nonzero values of all covariates."""
        return len(self.features.rows)


def _domain(analysis: int) -> str:
    """Return the kind of the covariates of an analysis."""
    found = ANALYSES[int(analysis)]
    return DEMOGRAPHIC.get(found.id, found.domain.lower())


@dataclass(frozen=True, repr=False, eq=False)
class QuestionAnalyses:
    """The results of the analyses of a study, and the reason if it ended early.

    Attributes
    ----------
    results : dict of int to AnalysisResult
        Those of the main outcome by the main, the matched and the crude analysis, by id.
    alternatives : dict of int to Tables
        Result tables of the main outcome by the other analyses, by id.
    others : dict of int to Tables or str
        Result tables of the main analysis for further outcomes and negative controls, or the reason
        why there are none, by the number of the outcome.
    caliper : float
        The calliper that was asked for.
    names : dict of int to str
        Names of further outcomes and negative controls.
    """

    spec: GridSpec
    results: dict[int, AnalysisResult]
    alternatives: dict[int, Tables]
    others: dict[int, Tables | str]
    notes: tuple[DataNote, ...]
    ended: str
    caliper: float
    names: dict[int, str]

    @classmethod
    def run(
        cls,
        made: QuestionCohorts,
        settings: StudySettings,
        say: Callable[[str], None],
        jobs: int = 1,
    ) -> QuestionAnalyses:
        """Run the analyses of the specification on the people of `collect_people`.

        Further outcomes and negative controls are analysed by ``jobs`` processes.
        """
        bench, spec = made.bench, made.spec
        (question,) = spec.questions
        main, *others = spec.analyses
        bench.comparison(question, main)
        say("fitting the propensity model and matching")
        prepared = bench.prepared(question, main)
        say("estimating hazard ratios")
        at_risk = prepared.at_risk(OUTCOME)
        results = {main.id: prepared.answer(OUTCOME, at_risk)}
        alternatives: dict[int, Tables] = {}
        for analysis in others:
            if analysis.outcome_model.family.doubly_robust or analysis.selection is not None:
                own = bench.prepared(question, analysis).answer(OUTCOME, at_risk)
                of_own = outcome_tables(own, spec.database_id, with_balance=False)
                alternatives[analysis.id] = of_own
                continue
            result = _alternative(prepared, analysis).answer(OUTCOME, at_risk)
            if analysis.id in (MATCHED, CRUDE):
                results[analysis.id] = result
            else:  # Tables need much less memory than the people of each analysis.
                alternatives[analysis.id] = outcome_tables(result, spec.database_id)
        further = [o.id for o in question.outcomes if o.id != OUTCOME]
        if further:
            say(f"estimating hazard ratios of {len(further)} further outcomes and controls")
        answers: dict[int, Tables | str] = {o: made.refused.get(o, "") for o in further}
        asked = [o for o in further if not answers[o]]
        common = prepared.packed(), spec.database_id
        with counted_steps(len(asked)) as report:
            found = run_in_processes(_answer, common, asked, jobs)
            for done, (outcome, answer) in enumerate(zip(asked, found, strict=True), 1):
                answers[outcome] = answer
                report(done)
        names = {o: bench.cohorts.name(o) for o in further}
        ended = emptied_arm(settings, results[CRUDE]) or prepared.shared.note
        notes = distinct((*made.notes, *in_roles(prepared.notes)))
        return cls(spec, results, alternatives, answers, notes, ended, settings.caliper, names)

    @property
    def scores(self) -> PropensityScores | None:
        """Propensity scores of all people who could be at risk, whatever the outcome."""
        return None if self.ended else self.results[MAIN].shared.scores

    def people(self) -> pd.DataFrame:
        """Tabulate the people at risk of the outcome, with their scores and matched sets."""
        people = pd.DataFrame(self.results[CRUDE].people)
        found = people[["person_id", "treated", "start", "time", "event"]].copy()
        found[["score", "preference"]] = np.nan
        found["set"] = -1
        if self.scores is not None:
            place = self._place(people)
            found["score"] = self.scores.score[place]
            found["preference"] = self.scores.preference[place]
        matched = self.results[MAIN].people
        if self.scores is not None and "set" in matched:
            at = np.searchsorted(people["row"].to_numpy(), matched["row"].to_numpy())
            sets = found["set"].to_numpy().copy()
            sets[at] = matched["set"].to_numpy()
            found["set"] = sets
        return found.reset_index(drop=True)

    def _place(self, people: pd.DataFrame) -> NDArray:
        """Return the positions of people among those who have scores."""
        rows = self.results[MAIN].shared.population.people["row"].to_numpy()
        return np.searchsorted(rows, people["row"].to_numpy())

    @property
    def covariates(self) -> StudyCovariates | None:
        """The covariates of the propensity model; None if there is none."""
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

    def tables(self, database: dict[str, str | None]) -> dict[str, pd.DataFrame]:
        """Write the results to a store in memory, and return its tables.

        Parameters
        ----------
        database : dict
            Name, versions and dates of the database, as ``OmopDatabase.provenance`` returns them.

        Returns
        -------
        dict of str to DataFrame
            The tables of `table_layouts.EXACT`.
        """
        main, spec = self.results[MAIN], self.spec
        specified = specification_tables(spec.questions, spec.analyses)
        specified["database"] = [{"database_id": spec.database_id, **database}]
        ids = {"target": TARGET, "comparator": COMPARATOR, "outcome": OUTCOME}
        names = {ids[role]: name for role, name in main.names.items()} | self.names
        specified["cohort"] = [{"cohort_id": i, "name": name} for i, name in names.items()]
        with ResultStore(":memory:", "", EXACT, EXACT_KEYS) as store:
            with store.buffered() as add:
                add("specification", specified)
                shared = shared_tables(main.question, main.analysis, main.shared, spec.database_id)
                add("shared", shared)
                for number, result in self.results.items():
                    if number == CRUDE or self.scores is not None:
                        add(f"analysis {number}", self._result_tables(result))
                    elif number in (MAIN, MATCHED):
                        key = result_key(result, spec.database_id)
                        refused = refused_tables(key, result.analysis, self.ended, spec.thresholds)
                        add(f"analysis {number}", refused)
                for number, tables in self.alternatives.items():
                    if self.scores is not None:
                        add(f"analysis {number}", tables)
                for number, answer in self.others.items():
                    add(f"outcome {number}", self._other_tables(number, answer))
            if self.others:
                calibrate_grid(store, spec.thresholds)
            return {name: store.table(name) for name in EXACT}

    def _other_tables(self, outcome: int, answer: Tables | str) -> Tables:
        """Return the rows of a further outcome or control: its result, or the reason for none."""
        if self.scores is not None and not isinstance(answer, str):
            return answer
        key = {**result_key(self.results[MAIN], self.spec.database_id), "outcome_id": outcome}
        why = answer if isinstance(answer, str) else self.ended
        return refused_tables(key, self.results[MAIN].analysis, why, self.spec.thresholds)

    def _result_tables(self, result: AnalysisResult) -> Tables:
        """Return the rows of an analysis; the main one has balance even without an estimate."""
        rule, number = result.analysis.match, result.analysis.id
        if number in (MAIN, MATCHED) and result.people.empty and rule is not None:
            why = (
                f"no pair lies within the caliper of {self.caliper:g} standard deviations, so the "
                "two groups are not comparable or the caliper is too small"
            )
            result = replace(result, estimate=Estimate(note=why))
        if number == MAIN and result.balance is None:
            result = replace(result, balance=self._balance_without_estimate())
        return outcome_tables(result, self.spec.database_id)

    def _balance_without_estimate(self) -> Balance:
        """Compute the balance where there is no estimate; unknown after matching without a pair."""
        people, features = self.people(), self.results[MAIN].shared.features
        matched = (people["set"] >= 0).to_numpy()
        assert features is not None
        found = covariate_balance(
            features.take(pd.DataFrame(self.results[CRUDE].people)["row"].to_numpy()),
            people["treated"].to_numpy(),
            matched.astype(float) if matched.any() else np.ones(len(people)),
        )
        if matched.any():
            return found
        table = found.table.copy()
        after = [c for c in table if c.endswith("after") or c in SHIFTS]
        table[after] = np.nan
        return replace(found, table=table, people={**found.people, "after": (0, 0)})


def collect_people(
    db: OmopDatabase, settings: StudySettings, say: Callable[[str], None]
) -> QuestionCohorts:
    """Make the cohorts of a study and collect its people and covariates from the database."""
    say("finding new users")
    made = make_question_cohorts(db, settings)
    (question,), main = made.spec.questions, made.spec.analyses[0]
    made.bench.comparison(question, main)
    say("collecting covariates")
    made.bench.features(question, main)
    return made


@single_threaded_blas()
def _answer(common: tuple[Prepared, str], outcome: int) -> Tables | str:
    """Return the rows of a further outcome, or the reason for none."""
    prepared, database = common
    try:
        result = prepared.answer(outcome)
    except REFUSED as error:
        return str(error)
    return outcome_tables(result, database, with_balance=False)


def _alternative(prepared: Prepared, analysis: StudyAnalysis) -> Prepared:
    """Prepare another analysis of the same scores, without its covariate balance."""
    shared = replace(prepared.shared, features=None, adjusted=None, balance=None)
    if analysis.propensity is None:
        shared = replace(shared, scores=None, note="")
    return replace(prepared, analysis=analysis, shared=shared)


def tie_orders(
    people: pd.DataFrame,
    found: QuestionAnalyses,
    settings: StudySettings,
    say: Callable[[str], None],
    jobs: int = 1,
) -> TieOrders:
    """Repeat the main analysis under other orders of equal scores, if it has an estimate."""
    orders = 0 if found.results[MAIN].estimate.note else settings.tie_orders
    if settings.tie_orders:  # Also without an estimate, which progress must not disclose.
        say("trying other orders of people with equal scores")
    rule = found.results[MAIN].analysis.match
    assert rule is not None
    score, treated = people["score"].to_numpy(), people["treated"].to_numpy()
    ids, time, event = (people[c].to_numpy() for c in ("person_id", "time", "event"))

    def estimates(seeds: Sequence[int]) -> Iterator[float]:
        if not seeds:
            return iter(())
        ordered = OrderedScores.of(score, treated, rule, ids)
        pairs = _MatchedPairs(ordered, time, event, treated)
        return run_in_processes(_MatchedPairs.hazard_ratio, pairs, seeds, jobs)

    return try_tie_orders(score, estimates, settings.seed, orders)


@dataclass(frozen=True, repr=False, eq=False)
class _MatchedPairs:
    """People to be matched under several orders of equal scores, with their outcomes."""

    scores: OrderedScores
    time: NDArray
    event: NDArray
    treated: NDArray

    @single_threaded_blas()
    def hazard_ratio(self, seed: int) -> float:
        """Match under the order of a seed, and estimate the hazard ratio within pairs."""
        sets = self.scores.matched(seed)
        kept = sets >= 0
        time, event, treated = (x[kept] for x in (self.time, self.event, self.treated))
        groups = TwoGroupCox.of(time, event, treated, strata=sets[kept])
        return math.exp(groups.maximum())
