"""Cases after a target, against counts person by person in Python."""

import datetime as dt
import json
from collections import defaultdict

import numpy as np
import pytest
from tests.studies.conftest import START, TinyOmop
from tests.studies.strategus.small_modules import CASES, COVARIATES, DURING

from steropes.studies import OmopDatabase
from steropes.studies.cohorts import CohortTable
from steropes.studies.strategus.characterization_case_tables import case_tables
from steropes.studies.strategus_plans.characterization_plan import characterization_plan
from steropes.studies.strategus_plans.shared_cohorts import DefinedCohort, SharedCohorts

COHORTS = SharedCohorts(tuple(DefinedCohort(i, f"cohort {i}", "{}") for i in (1, 3)))
PRIOR, WASHOUT, BEFORE, AFTER = 30, 100, 60, 90
CONDITION = 101
COMMON = {
    **CASES, "targetIds": 1, "minPriorObservation": PRIOR, "outcomeWashoutDays": WASHOUT,
    "riskWindowStart": 1, "riskWindowEnd": 20,
}  # fmt: skip
SEX = {**COVARIATES, "DemographicsAgeGroup": False, "ConditionGroupEraLongTerm": False}


def plan(**lists):
    return characterization_plan({"analysis": lists}, ("settings",), COHORTS)


def described(version):
    """Both descriptions as Characterization 3 and as version 2 writes them."""
    series = {
        "caseCovariateSettings": DURING, "casePreTargetDuration": BEFORE,
        "casePostOutcomeDuration": AFTER,
    }  # fmt: skip
    if version == 3:
        return plan(
            riskFactorSettings=[{**COMMON, "covariateSettings": [SEX]}],
            caseSeriesSettings=[{**COMMON, **series}],
        )
    both = {**COMMON, **series, "covariateSettings": SEX, "extractNonCaseCovariates": True}
    del both["limitToFirstInNDays"]
    return plan(aggregateCovariateSettings=[both])


@pytest.fixture(scope="module", params=[1, 2])
def random_case(request, tmp_path_factory):
    """A random database of 80 people with entries of the target and outcomes."""
    rng = np.random.default_rng(request.param)
    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    omop.concept(CONDITION, "asthma")
    people, entries = {}, []
    for _ in range(80):
        first, last = int(rng.integers(-800, -100)), int(rng.integers(200, 800))
        sex = int(rng.choice([8507, 8532]))
        person = omop.person(observed=(first, last), sex=sex)
        records = sorted({int(d) for d in rng.integers(first, last, 6)})
        for on in records:
            omop.condition(person, CONDITION, on)
        targets = sorted({int(d) for d in rng.integers(first, last - 120, rng.integers(0, 3))})
        ends = [d + int(rng.integers(0, 120)) for d in targets]
        outcomes = sorted({int(d) for d in rng.integers(first, last, rng.integers(0, 6))})
        people[person] = (
            first,
            last,
            sex,
            records,
            list(zip(targets, ends, strict=True)),
            outcomes,
        )
        entries += [(1, person, *pair) for pair in people[person][4]]
        entries += [(3, person, d, d) for d in outcomes]
    with OmopDatabase(omop.write()) as db:
        columns = list(zip(*entries, strict=True))
        dates = [[START + dt.timedelta(days=d) for d in columns[k]] for k in (2, 3)]
        yield db, people, CohortTable(columns[0], columns[1], *dates)


def expected_cases(people):
    """Cases as (person, target start, outcome), and people with an earlier outcome."""
    cases, excluded = [], []
    for person, (first, _, _, _, targets, outcomes) in people.items():
        if not targets or targets[0][0] - first < PRIOR:
            continue
        start, end = targets[0]
        gaps = [b - a for a, b in zip(outcomes[:-1], outcomes[1:], strict=True)]
        counted = [
            d
            for d, gap in zip(outcomes, [10**6, *gaps], strict=bool(outcomes))
            if gap >= WASHOUT and d - first >= PRIOR
        ]
        at_risk = [d for d in counted if start + 1 <= d <= end + 20]
        if at_risk:
            cases.append((person, start, min(at_risk)))
        if any(start - WASHOUT <= d <= start - 1 for d in counted):
            excluded.append(person)
    return cases, excluded


@pytest.mark.sampled
@pytest.mark.parametrize("version", [2, 3])
def test_cases_are_described_at_the_target_and_around_the_outcome(random_case, version):
    db, people, cohorts = random_case
    made = described(version)
    assert [v.reason for v in made.verdicts if v.reason] == []
    found = case_tables(db, made.cases, 0, cohorts)
    cases, excluded = expected_cases(people)
    assert len(cases) > 5
    counts = found["c_cohort_counts"].set_index("cohort_type")["row_count"].to_dict()
    assert counts == {"Cases": len(cases), "Exclude": len(excluded)}
    wanted = defaultdict(int)
    for kind, some in (("Cases", [c[0] for c in cases]), ("Exclude", excluded)):
        for person in some:
            wanted[kind, people[person][2] * 1000 + 1] += 1
    spans = {
        "CasesBefore": lambda t, o: (t - BEFORE, t),
        "CasesBetween": lambda t, o: (t + 1, o),
        "CasesAfter": lambda t, o: (o + 1, o + AFTER),
    }
    for kind, span in spans.items():
        for person, start, outcome in cases:
            low, high = span(start, outcome)
            wanted[kind, CONDITION * 1000 + 109] += any(low <= d <= high for d in people[person][3])
    ones = found["c_covariates"].set_index(["cohort_type", "covariate_id"])["sum_value"]
    assert ones.to_dict() == {key: n for key, n in wanted.items() if n}
    assert {*found["c_covariate_ref"]["covariate_id"]} >= {CONDITION * 1000 + 109}
    assert len(found["c_settings"]) == (2 if version == 3 else 1)
    assert found["c_settings"]["end_anchor"].unique().tolist() == ["cohort end"]


def test_settings_of_early_versions_describe_risk_factors_alone():
    """Characterization 0.5 wrote no settings of the covariates of case series."""
    [case] = plan(aggregateCovariateSettings=[{**COMMON, "covariateSettings": SEX}]).cases
    assert (case.risk_factors, case.around) == (True, None)


def test_settings_of_cases_that_cannot_be_read_are_refused_by_their_path():
    broken = [
        ({"startAnchor": "today"}, "startAnchor must be 'cohort start' or 'cohort end'"),
        ({"outcomeWashoutDays": [1, 2]}, "outcomeWashoutDays must be one number"),
        ({"covariateSettings": [SEX, SEX, {"attr_fun": "mine"}]}, "covariateSettings"),
        ({"speed": 1}, "speed is not known"),
    ]
    for change, why in broken:
        settings = {**COMMON, "covariateSettings": [SEX], **change}
        [verdict] = plan(riskFactorSettings=[settings]).verdicts
        assert why in verdict.reason
    series = {**COMMON, "caseCovariateSettings": {**DURING, "attr_fun": "mine"}}
    [verdict] = plan(caseSeriesSettings=[series]).verdicts
    assert "a function of R (mine)" in verdict.reason
    inpatient = {**DURING, "ConditionOccurrencePrimaryInpatientDuring": True}
    series = json.loads(json.dumps({**COMMON, "caseCovariateSettings": inpatient}))
    [verdict] = plan(caseSeriesSettings=[series]).verdicts
    assert verdict.word == "runs with a difference"
    assert "PrimaryInpatientDuring is not computed" in verdict.text
