"""Settings of grids that specifications of CohortMethod 5 need."""

import numpy as np
import pandas as pd
import pytest

from steropes.designs import Match, OutcomeModel, PropensityRules
from steropes.errors import DataError
from steropes.studies import GridSpec, run_grid, synthetic_database
from steropes.studies.cohorts import (
    CohortSources,
    ConceptSet,
    TimeAtRisk,
    condition_cohorts,
    read_cohorts,
    study_population,
)
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.cohorts.study_populations import PopulationRules
from steropes.studies.cohorts.two_cohort_entry import ComparisonRules, compare_cohorts
from steropes.studies.comparative import Outcome, Question, StudyAnalysis, Workbench
from steropes.studies.comparative.grid_questions_and_analyses import BalanceFilter
from steropes.studies.covariates import FeatureRules, extract_features
from steropes.studies.specifications.grid_specification import Exclusion

EVERYONE = ComparisonRules(both="keep all", first_only=False, washout_days=0, common_period=False)


@pytest.fixture(scope="module")
def db():
    return synthetic_database(400)


@pytest.fixture(scope="module")
def cohorts(db):
    return read_cohorts(db) + condition_cohorts(db, {3: 192671})


def people_of(db, entries, rules):
    """Apply population rules to entries (cohort, person, first day after 2010-01-01)."""
    origin = np.datetime64("2012-01-01")
    start = np.array([origin + day for _, _, day in entries])
    table = CohortTable(
        [c for c, _, _ in entries], [p for _, p, _ in entries], start, start + 5, db.identity
    )
    comparison = compare_cohorts(db, table, 1, 2, EVERYONE)
    found = study_population(comparison, table, None, TimeAtRisk(start=0, min_days=0), rules=rules)
    day = (found.people["start"].to_numpy() - origin).astype("timedelta64[D]").astype(int)
    return sorted(zip(found.people["treated"], found.people["person_id"], day, strict=True))


@pytest.fixture(scope="module")
def observed(db):
    """People observed through 2012, who can have any entries."""
    with db.workspace() as work:
        found = work.frame(
            f"SELECT person_id FROM {db.table('observation_period')} WHERE "
            "observation_period_start_date < DATE '2011-06-01' AND "
            "observation_period_end_date > DATE '2013-01-01' ORDER BY 1 LIMIT 4"
        )
    return found["person_id"].tolist()


def test_keep_first_keeps_one_entry_and_drops_ties(db, observed):
    a, b, c, d = observed
    entries = [(1, a, 0), (2, a, 9), (1, b, 4), (2, b, 4), (2, c, 1), (2, c, 8), (1, d, 3)]
    left = people_of(db, entries, PopulationRules(both="keep first"))
    assert left == sorted([(1, a, 0), (0, c, 1), (1, d, 3)])


def test_remove_all_drops_people_of_both_cohorts(db, observed):
    a, b, c, _ = observed
    entries = [(1, a, 0), (2, a, 9), (1, b, 4), (2, c, 1), (2, c, 8)]
    left = people_of(db, entries, PopulationRules(both="remove all"))
    assert left == sorted([(1, b, 4), (0, c, 1), (0, c, 8)])


def test_common_period_is_of_the_first_exposures_that_are_left(db, observed):
    a, b, c, d = observed
    entries = [(1, a, 0), (1, a, 50), (1, b, 10), (2, c, 5), (2, d, 40)]
    both = PopulationRules(first_only=True, common_period=True)
    # First entries of the target are on days 0 and 10, so that the period is from 5 to 10.
    assert people_of(db, entries, both) == sorted([(1, b, 10), (0, c, 5)])
    alone = PopulationRules(common_period=True)
    assert people_of(db, entries, alone) == sorted([(1, b, 10), (0, c, 5), (0, d, 40)])


def test_scores_of_all_entries_do_not_depend_on_the_time_at_risk(db, cohorts):
    everybody = PropensityRules(variance=0.1, people="all")
    late = TimeAtRisk(start=200, min_days=100)
    bench = Workbench(db, cohorts)
    question = Question(1, 2, (3,))
    features = FeatureRules(analyses=(1, 210))
    found = [
        bench.run(
            question,
            3,
            StudyAnalysis(
                i, features=features, propensity=everybody, at_risk=at_risk, match=Match()
            ),
        )
        for i, at_risk in enumerate((TimeAtRisk(), late), 1)
    ]
    models = [r.shared.scores.coefficients for r in found]
    pd.testing.assert_frame_equal(*models)
    everyone = len(bench.comparison(question, StudyAnalysis(1)).entries)
    assert len(found[1].shared.population.people) == everyone
    assert len(found[1].people) < len(found[0].people)
    # The scores of people are looked up by their entry.
    row = found[1].people["row"].to_numpy()
    np.testing.assert_array_equal(found[1].people["score"], found[1].shared.scores.score[row])


def test_balance_after_adjustment_by_scores_of_everybody_is_that_of_people_at_risk(db, cohorts):
    everybody = PropensityRules(variance=0.1, people="all")
    late = TimeAtRisk(start=1500, min_days=100)
    bench, question = Workbench(db, cohorts), Question(1, 2, (3,))
    analysis = StudyAnalysis(
        1, features=FeatureRules(analyses=(1, 210)), propensity=everybody, at_risk=late,
        outcome_model=OutcomeModel(weighted=True),
    )  # fmt: skip
    shared = bench.shared(question, analysis)
    comparison = bench.comparison(question, analysis)
    at_risk = study_population(comparison, cohorts, None, late).people["row"].to_numpy()
    assert 0 < len(at_risk) < len(shared.population.people)
    np.testing.assert_array_equal(shared.adjusted.kept, at_risk)
    treated = shared.population.people["treated"].to_numpy()
    weights = np.zeros(len(treated))
    weights[at_risk] = shared.adjusted.weights
    line = shared.balance.table.iloc[0]
    has = np.asarray(shared.features.column(int(line["covariate_id"])))
    for arm, column in ((1, "target_mean_after"), (0, "comparator_mean_after")):
        mine = treated == arm
        assert line[column] == pytest.approx(np.average(has[mine], weights=weights[mine]))


def test_an_outcome_has_its_own_time_at_risk(db, cohorts):
    own = Outcome(3, start=1, end=30, end_anchor="cohort start", look_back=10)
    crude = StudyAnalysis(1, features=None, propensity=None, unadjusted=True)
    of_analysis, of_outcome = (
        Workbench(db, cohorts).run(Question(1, 2, (outcome,)), 3, crude)
        for outcome in (Outcome(3), own)
    )
    assert of_outcome.people["risk_end"].max() == 30 < of_analysis.people["risk_end"].max()
    assert own.at_risk(TimeAtRisk(min_days=9)) == TimeAtRisk(
        start=1, end=30, end_anchor="cohort start", look_back=10, min_days=9
    )


def test_unknown_concepts_are_refused_or_noted(db, cohorts):
    entries = Workbench(db, cohorts).comparison(Question(1, 2, (3,)), StudyAnalysis(1)).entries
    rules = FeatureRules(analyses=(1, 410), exclude=(1118084, 987654321))
    with pytest.raises(DataError, match="987654321"):
        extract_features(db, entries, rules)
    noted = extract_features(
        db, entries, FeatureRules(analyses=(1, 410), exclude=(1118084, 987654321), unknown="note")
    )
    known = extract_features(db, entries, FeatureRules(analyses=(1, 410), exclude=(1118084,)))
    assert any("lacks 1 of the 2 concepts to exclude" in n.text for n in noted.notes)
    assert noted.columns["covariate_id"].tolist() == known.columns["covariate_id"].tolist()


def test_grids_leave_out_excluded_results_and_filter_balance(db, cohorts, tmp_path):
    sources = CohortSources(
        table="cohort", conditions={3: ConceptSet((192671,)), 4: ConceptSet((81151,))}
    )
    features = FeatureRules(analyses=(1, 3, 210))
    analyses = (
        StudyAnalysis(1, features=None, propensity=None, unadjusted=True),
        StudyAnalysis(
            2,
            features=features,
            propensity=PropensityRules(variance=0.1),
            match=Match(),
            balance_shown=BalanceFilter(analyses=(3,)),
        ),
    )
    spec = GridSpec(
        sources,
        (Question(1, 2, (3, 4)),),
        analyses,
        exclude=(Exclusion(outcome=4, analysis=2), Exclusion(target=9)),
    )
    tables = run_grid(db, spec, tmp_path).tables
    found = tables["cm_result"][["analysis_id", "outcome_id"]].to_numpy().tolist()
    assert sorted(found) == [[1, 3], [1, 4], [2, 3]]
    assert {*(tables["cm_covariate_balance"]["covariate_id"] % 1000)} == {3}
    assert {*(tables["cm_shared_covariate_balance"]["covariate_id"] % 1000)} == {1, 3, 210}


def test_an_exclusion_of_everything_is_refused():
    with pytest.raises(DataError, match="needs an id"):
        Exclusion()
