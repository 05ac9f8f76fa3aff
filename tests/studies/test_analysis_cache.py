"""The workbench: what cannot be answered says why, and what is shared is made once."""

import numpy as np
import pytest
from tests.studies.conftest import TinyOmop

from steropes.designs import Match, OutcomeModel, PropensityRules, Stratify, Trim
from steropes.designs.propensity import propensity_score_fit as adjust_scores
from steropes.errors import DataError
from steropes.studies import OmopDatabase
from steropes.studies.cohorts import (
    ComparisonRules,
    TimeAtRisk,
    condition_cohorts,
    drug_era_cohorts,
)
from steropes.studies.comparative import Question, StudyAnalysis, Workbench
from steropes.studies.comparative import analysis_cache as workbench
from steropes.studies.covariates import FeatureRules

COMMON = {
    "at_risk": TimeAtRisk(end=400, end_anchor="cohort start"),
    "features": FeatureRules(analyses=(1, 3, 402)),
    "propensity": PropensityRules(variance=0.1),
    "cohorts": ComparisonRules(washout_days=100),
}
QUESTION = Question(11, 12, (13,), exclude=(1, 2))


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    rng = np.random.default_rng(4)
    omop.concept(9, "other drug")
    for _ in range(240):
        sex = int(rng.choice([8507, 8532]))
        drug = "target" if rng.random() < (0.65 if sex == 8507 else 0.35) else "comparator"
        person = omop.person(**{drug: int(rng.integers(0, 50))}, sex=sex, born=1950)
        if rng.random() < 0.3:
            omop.drug(person, 9, -40, -20)
        if rng.random() < 0.4:
            omop.condition(person, 3, int(rng.integers(60, 400)))
    return omop.write()


@pytest.fixture
def bench(database):
    with OmopDatabase(database) as db:
        cohorts = drug_era_cohorts(db, {11: 1, 12: 2}) + condition_cohorts(db, {13: 3})
        yield Workbench(db, cohorts)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("settings", "estimand"),
    [
        ({}, "ate"),
        ({"match": Match(), "outcome_model": OutcomeModel(stratified=True)}, "att"),
        ({"match": Match(max_ratio=0, exact=(8532001,))}, "att"),
        ({"match": Match(reverse=True, max_ratio=3)}, "att"),
        (
            {"stratify": Stratify(3, "target"), "outcome_model": OutcomeModel(stratified=True)},
            "att",
        ),
        ({"stratify": Stratify(3, "comparator")}, "atu"),
        ({"stratify": Stratify(3), "outcome_model": OutcomeModel(weighted=True)}, "ate"),
        ({"match": Match(max_ratio=5), "outcome_model": OutcomeModel(weighted=True)}, "att"),
        ({"estimand": "ato", "outcome_model": OutcomeModel(weighted=True)}, "ato"),
        (
            {"trim": Trim(0.05), "truncate": 5.0, "outcome_model": OutcomeModel(weighted=True)},
            "att",
        ),
        ({"outcome_model": OutcomeModel(covariates=True, variance=0.1)}, "ate"),
    ],
)
def test_every_way_to_adjust_gives_an_estimate_and_its_estimand(bench, settings, estimand):
    result = bench.run(QUESTION, 13, StudyAnalysis(1, **COMMON, **settings))
    assert result.estimate.note == ""
    assert np.isfinite(result.estimate.log_rr)
    n = int((result.people["treated"] == 1).sum())
    before = int((bench.comparison(QUESTION, result.analysis).entries["treated"] == 1).sum())
    expected = (
        "atu"
        if settings.get("match") and settings["match"].reverse and 2 * before > 240
        else estimand
    )
    assert result.estimand == expected
    assert result.attrition["target_entries"].iloc[-1] == n
    if "match" in settings and settings["match"].exact:
        sex = bench.features(QUESTION, result.analysis).column(8532001)[result.people["row"]]
        assert (result.people.groupby("set")["row"].count() >= 2).all()
        for s in result.people["set"].unique():
            assert len(set(sex[(result.people["set"] == s).to_numpy()])) == 1
    if result.analysis.adjusts:
        assert result.balance.largest < 1
        assert np.isfinite(result.diagnostics.shared_difference)


def test_balance_after_trimming_alone_is_that_of_the_people_who_are_left(bench):
    settings = {"trim": Trim(equipoise=(0.3, 0.7)), "unadjusted": True}
    result = bench.run(QUESTION, 13, StudyAnalysis(1, **COMMON, **settings))
    left = result.people
    values = bench.features(QUESTION, result.analysis).column(8532001)[left["row"]]
    table = result.balance.table.set_index("covariate_id")
    for arm, name in ((1, "target_mean_after"), (0, "comparator_mean_after")):
        mean = values[(left["treated"] == arm).to_numpy()].mean()
        assert table.loc[8532001, name] == pytest.approx(mean)
    assert result.balance.largest > 0.1
    assert result.diagnostics.balance_verdict == "FAIL"
    assert not result.diagnostics.unblind
    assert result.diagnostics.shared_balance_verdict == "FAIL"


def test_scores_and_covariates_are_made_once_for_what_shares_them(bench, monkeypatch):
    made = []
    for module, name in ((workbench, "extract_features"), (workbench, "fit_scores_of_rows")):
        original = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, f=original, n=name, **k: made.append(n) or f(*a, **k)
        )
    for settings in ({"match": Match()}, {"stratify": Stratify(3)}, {}):
        bench.run(QUESTION, 13, StudyAnalysis(1, **COMMON, **settings))
    assert made == ["extract_features", "fit_scores_of_rows"]
    assert adjust_scores.DIGITS == 10


def test_what_cannot_be_answered_says_why(bench):
    plain = {**COMMON, "propensity": None, "features": None}
    assert (
        "nobody had the outcome"
        in bench.run(Question(11, 12, (99,)), 99, StudyAnalysis(1, **plain)).estimate.note
    )
    nobody = bench.run(Question(97, 98, (13,)), 13, StudyAnalysis(1, **plain))
    assert nobody.estimate.note.startswith("nobody is left (there are no entries of the target")
    assert nobody.attrition["target_people"].tolist() == [0] * len(nobody.attrition)
    one = bench.run(Question(11, 98, (13,)), 13, StudyAnalysis(1, **COMMON, match=Match()))
    assert "the comparator arm has fewer than two people" in one.estimate.note
    defined = bench.run(
        Question(11, 12, (13,)),
        13,
        StudyAnalysis(1, **(COMMON | {"features": FeatureRules((402,))})),
    )
    assert (
        "covariate 1402 (drug, long term: newdrug) has a correlation of 1.00"
        in defined.estimate.note
    )
    with pytest.raises(DataError, match="nesting cohort: cohort 55 has no entries"):
        bench.run(Question(11, 12, (13,), nesting=55), 13, StudyAnalysis(1, **plain))
