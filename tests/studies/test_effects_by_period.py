"""Effects of outcome models that change at given days, and pooled logistic outcome models."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.studies.test_outcome_models import FEATURES, PEOPLE, SETS, WEIGHTS

import steropes as st
from steropes.designs import OutcomeModel, estimate_effect
from steropes.errors import DataError
from steropes.studies import GridSpec, run_grid, synthetic_database
from steropes.studies.cohorts import CohortSources, ConceptSet
from steropes.studies.comparative import Question, StudyAnalysis
from steropes.studies.disclosure.disclosure_rules import site_rules
from steropes.studies.disclosure.effect_suppression import Secrecy
from steropes.studies.release.grid_effects import released_periods
from steropes.studies.report.comparative_grid_page import write_grid_report

SPLIT = (10, 25)


@pytest.mark.parametrize("stratified", [False, True])
def test_the_effect_of_the_treatment_alone_in_a_period_is_that_of_its_time_alone(stratified):
    model = OutcomeModel(split_days=SPLIT, stratified=stratified)
    found = estimate_effect(PEOPLE, model, sets=SETS)
    whole = estimate_effect(PEOPLE, replace(model, split_days=()), sets=SETS)
    assert found.log_rr == whole.log_rr
    for line, (first, last) in zip(
        found.periods.itertuples(index=False), ((0, 10), (10, 25), (25, np.inf)), strict=True
    ):
        here = PEOPLE["time"] > first
        of = PEOPLE[here]
        event = (of["event"] == 1) & (of["time"] <= last)
        y = st.Surv(np.minimum(of["time"], last), event.astype(int), entry=np.full(len(of), first))
        strata = SETS[here] if stratified else None
        alone = st.CoxRegression().fit(of[["treated"]].astype(float), y, strata=strata)
        assert line.log_rr == pytest.approx(float(alone.coef_[0]), abs=1e-6)
        limits = alone.confint(["treated"], method="profile").iloc[0]
        assert (line.lower, line.upper) == pytest.approx(tuple(limits), abs=1e-4)
        assert line.target_outcomes == (event & (of["treated"] == 1)).sum()
    assert found.periods["last_day"].isna().tolist() == [False, False, True]


@pytest.mark.parametrize(
    "settings", [{"weighted": True}, {"covariates": True, "variance": 0.1}, {"interval": "wald"}]
)
def test_periods_add_up_in_every_kind_of_model(settings):
    model = OutcomeModel(split_days=SPLIT, **settings)
    found = estimate_effect(PEOPLE, model, weights=WEIGHTS, features=FEATURES)
    events = PEOPLE[PEOPLE["event"] == 1]
    assert found.periods["target_outcomes"].sum() == (events["treated"] == 1).sum()
    assert found.periods[["log_rr", "se", "lower", "upper", "p"]].notna().all(axis=None)
    logs = found.periods["log_rr"]
    assert logs.min() < found.log_rr < logs.max()


def test_a_pooled_logistic_model_is_the_library_s():
    model = OutcomeModel(kind="pooled logistic", period_days=5, baseline=1)
    found = estimate_effect(PEOPLE, model)
    y = st.Surv(PEOPLE["time"].to_numpy(), PEOPLE["event"].to_numpy())
    alone = st.PooledLogisticRegression(interval=5, baseline=1)
    alone.fit(PEOPLE[["treated"]].astype(float), y)
    assert found.log_rr == pytest.approx(float(alone.summary().loc["treated", "coef"]), abs=1e-6)
    assert found.lower < found.log_rr < found.upper
    assert len(found.profile) > 10


def test_repeats_are_those_of_the_cross_validation():
    once, often = (
        estimate_effect(
            PEOPLE, OutcomeModel(covariates=True, folds=3, repeats=r), features=FEATURES
        )
        for r in (1, 5)
    )
    assert not once.note
    assert not often.note
    assert OutcomeModel(repeats=10).repeats == 10


def test_a_period_without_outcomes_leaves_the_constant_effect():
    whole = estimate_effect(PEOPLE, OutcomeModel())
    found = estimate_effect(PEOPLE, OutcomeModel(split_days=(10, 5000)))
    assert found.log_rr == whole.log_rr
    assert not found.note
    assert found.periods["log_rr"].isna().all()
    assert found.periods["target_outcomes"].iloc[-1] == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "logistic", "split_days": (10,)}, "belongs to Cox models"),
        ({"split_days": (20, 10)}, "must increase"),
        ({"split_days": (0,)}, "split_days"),
        ({"kind": "pooled logistic", "stratified": True}, "weight instead"),
    ],
)
def test_models_that_are_not_defined_are_refused(settings, words):
    with pytest.raises(DataError, match=words):
        OutcomeModel(**settings)


def lines(*counts):
    """Rows of effects by period with the given outcomes of both arms."""
    key = {"target_comparator_id": 1, "outcome_id": 2, "analysis_id": 3}
    rows = [
        {
            **key, "first_day": k, "rr": 1.2345, "ci_95_lb": 1.0123, "ci_95_ub": 1.5099,
            "log_rr": math.log(1.2345), "se_log_rr": 0.102, "p": 0.0389,
            "target_outcomes": a, "comparator_outcomes": b,
            "target_informative": a, "comparator_informative": b,
        }
        for k, (a, b) in enumerate(counts)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_few_outcomes_of_a_period_are_withheld_and_others_rounded():
    table = lines((4, 90), (1003, 991), (0, 7))
    found = released_periods(table, {(1, 2, 3): Secrecy(False, 0.0)}, site_rules("ohdsi", None))
    assert found["rr"].isna().tolist() == [True, False, True]
    assert found["target_outcomes"].isna().tolist() == [True, False, True]
    assert found["target_outcomes"][1] == 1005
    assert found["comparator_outcomes"][1] == 990
    assert found["log_rr"][1] != table["log_rr"][1]
    open_ = released_periods(table, {}, site_rules("none", None))
    pd.testing.assert_frame_equal(open_, table)
    hidden = released_periods(table, {(1, 2, 3): Secrecy(True, 0.0)}, site_rules("ohdsi", None))
    assert hidden["rr"].isna().all()
    assert released_periods(table.iloc[:0], {}, site_rules("ohdsi", None)).empty


def test_periods_are_in_the_tables_and_on_the_page_unless_blinded(tmp_path):
    sources = CohortSources(table="cohort", conditions={3: ConceptSet((192671,))})
    crude = {"features": None, "propensity": None}
    analyses = (
        StudyAnalysis(
            1, "split", outcome_model=OutcomeModel(split_days=(365,)), unadjusted=True, **crude
        ),
        StudyAnalysis(2, "hidden", outcome_model=OutcomeModel(split_days=(365,)), **crude),
        StudyAnalysis(
            3,
            "pooled",
            outcome_model=OutcomeModel(kind="pooled logistic"),
            unadjusted=True,
            **crude,
        ),
    )
    spec = GridSpec(sources, (Question(1, 2, (3,)),), analyses)
    results = run_grid(synthetic_database(1500), spec, tmp_path)
    table = results.tables["effect_by_period"]
    assert table.groupby("analysis_id")["first_day"].apply(list).to_dict() == {
        1: [1, 366],
        2: [1, 366],
    }
    assert "target_informative" not in table
    page = write_grid_report(results, tmp_path).read_text()
    assert "day 366 on" in page
    assert page.count("day 366 on") == 1  # The analysis that adjusts for nothing is not shown.
    assert "odds ratio by period" in page
