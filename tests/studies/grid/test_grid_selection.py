"""Analyses of grids that select the covariates of the propensity model for each outcome."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import TinyOmop

from steropes.designs import (
    HighDimensionalPropensityScore,
    OutcomeModel,
    PropensityRules,
    fit_scores,
)
from steropes.errors import DataError
from steropes.studies.comparative import SelectedConfounders
from steropes.studies.comparative.analysis_cache import Workbench
from steropes.studies.covariates import FeatureRules
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.grids import compare_analyses
from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.report.comparative_grid_page import write_grid_report


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """400 people with codes before the start, of which 20 confounds outcome 3 and 21 control 5."""
    omop, rng = TinyOmop(tmp_path_factory.mktemp("omop")), np.random.default_rng(3)
    for concept in (*range(4, 10), *range(20, 28)):
        omop.concept(concept, f"condition {concept}")
    for _ in range(400):
        codes = rng.random(8) < 0.3
        drug = "target" if rng.random() < 0.2 + 0.3 * (codes[0] + codes[1]) else "comparator"
        person = omop.person(**{drug: 0}, born=int(rng.choice([1940, 1970])))
        for code in np.flatnonzero(codes):
            omop.condition(person, 20 + int(code), -30)
        for concept in (3, 5, 6, 7, 8, 9):
            own = codes[0] if concept == 3 else codes[1] if concept == 5 else False
            if rng.random() < 0.1 + 0.7 * own:
                omop.condition(person, concept, int(rng.integers(1, 400)))
    return omop.write()


@pytest.fixture(scope="module")
def analysis(spec):
    """The weighted analysis with one selected covariate and a prior that is not chosen."""
    return replace(
        spec.analyses[1], id=3, features=FeatureRules((1, 3, 102)),
        propensity=PropensityRules(variance=1.0), selection=SelectedConfounders(k=1),
    )  # fmt: skip


@pytest.fixture(scope="module")
def bench(database, spec):
    with OmopDatabase(database) as db:
        yield Workbench(db, spec.make_cohorts(db).table, spec.thresholds)


def test_scores_are_those_of_selected_and_demographic_covariates(bench, spec, analysis):
    (question,) = spec.questions
    found = bench.run(question, 13, analysis)
    shared = found.shared
    features = bench.all_features(question, analysis)
    people = pd.DataFrame(shared.population.people)
    own = features.take(people["row"].to_numpy())
    codes = own.columns["analysis_id"].to_numpy() == 102
    method = HighDimensionalPropensityScore(k=1).fit(
        own.select(np.flatnonzero(codes)), people["treated"], people["event"] == 1
    )
    same = fit_scores(
        method.covariates().beside(own.select(np.flatnonzero(~codes))), people["treated"],
        analysis.propensity, ids=people["person_id"].to_numpy(),
    )  # fmt: skip
    np.testing.assert_allclose(shared.scores.score, same.score, atol=1e-9)
    assert found.estimate.note == ""
    assert np.isfinite(found.estimate.log_rr)
    # Nothing is shared by outcomes, whose covariates and scores differ.
    assert bench.prepared(question, analysis).shared.scores is None
    other = bench.run(question, 5, analysis).shared.scores
    for scores, code in ((shared.scores, "condition 20"), (other, "condition 21")):
        names = scores.tidied.features.columns["name"]
        (chosen,) = names[names.str.contains("condition 2")]
        assert code in chosen
    all_of_them = replace(analysis, selection=None)
    wide = bench.run(question, 13, all_of_them).shared.scores
    assert len(wide.tidied.features.columns) > len(shared.scores.tidied.features.columns)


def test_a_grid_compares_selected_with_all_covariates_on_its_controls(
    database, spec, analysis, tmp_path
):
    wide = replace(analysis, id=4, selection=None, description="all covariates")
    grid = replace(spec, analysis=(analysis, wide))
    found = run_grid(database, grid, tmp_path)
    table = compare_analyses(found, draws=100)
    assert set(table["description"]) == {"weighted", "all covariates"}
    assert table["controls"].tolist() == [5, 5]
    assert np.isfinite(table["ease"]).all()
    # Scores that no other outcome has are in no table of shared results.
    models = found.tables["cm_propensity_model"]
    assert set(models["analysis_id"]) == {4}
    balance = found.tables["cm_covariate_balance"]
    assert {3, 4} <= {*balance["analysis_id"]}
    assert "all covariates" in write_grid_report(found, tmp_path).read_text()


def test_a_failure_is_a_note(bench, spec, analysis):
    (question,) = spec.questions
    without = replace(analysis, features=FeatureRules((1, 3)))
    assert "no code has 1 people or more" in bench.run(question, 13, without).estimate.note


def test_rules_that_scores_of_an_outcome_do_not_have_are_refused(analysis):
    for settings, message in (
        ({"propensity": PropensityRules(people="all")}, "leave people = 'all' out"),
        ({"outcome_model": OutcomeModel("tmle"), "truncate": None}, "does not combine with doubly"),
        ({"propensity": None, "truncate": None, "unadjusted": True,
          "outcome_model": OutcomeModel()}, "needs a propensity model"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=message):
            replace(analysis, **settings)
