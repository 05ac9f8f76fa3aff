"""A concept of another domain than is looked for, such as a drug given as the outcome."""

import duckdb
import pytest
from tests.studies.conftest import COMPARATOR, OUTCOME, TARGET
from tests.studies.new_users import new_users

from steropes import DataError
from steropes.studies import (
    OmopDatabase,
    StudySettings,
    case_series,
    case_series_settings,
    comparative_study,
)
from steropes.studies.cohorts import condition_cohorts, drug_era_cohorts

SICK, PILL = 71, 72
NO_CONDITION = r"concept of the domain Drug, and condition_occurrence has .* Condition"
NO_DRUG = r"concept of the domain Condition, and drug_era has .* the domain Drug"


@pytest.fixture
def domains(omop):
    """A vocabulary that tells domains: 71 is a condition and 72 a drug, and nobody has either."""
    omop.concept(SICK, "fever")
    omop.concept(PILL, "pill")
    for i in range(40):
        person = omop.person(**{("target", "comparator")[i % 2]: 0}, outcome=9 + i)
        omop.condition(person, 70, -5)
    path = omop.write()
    with duckdb.connect(str(path)) as con:
        con.execute("ALTER TABLE concept ADD COLUMN domain_id VARCHAR")
        con.execute(
            "UPDATE concept SET domain_id = CASE WHEN concept_id IN (1, 2, 72) THEN 'Drug' "
            "WHEN concept_id = 3 THEN 'Observation' ELSE 'Condition' END"
        )
    return path


def test_a_drug_as_the_outcome_is_refused_with_its_domain(domains):
    for run in (
        lambda: comparative_study(domains, StudySettings(TARGET, COMPARATOR, PILL)),
        lambda: case_series(domains, case_series_settings(PILL, TARGET)),
        lambda: condition_cohorts(OmopDatabase(domains), {5: PILL}),
    ):
        with pytest.raises(DataError, match=rf"nobody has .*72 \(pill\).*{NO_CONDITION}"):
            run()


def test_a_condition_as_an_exposure_is_refused_with_its_domain(domains):
    for run in (
        lambda: comparative_study(domains, StudySettings(TARGET, SICK, OUTCOME)),
        lambda: case_series(domains, case_series_settings(OUTCOME, SICK)),
        lambda: drug_era_cohorts(OmopDatabase(domains), {5: SICK}),
    ):
        with pytest.raises(DataError, match=rf"71 \(fever\).*{NO_DRUG}"):
            run()


def test_an_outcome_that_nobody_has_is_a_result_and_records_count_more_than_the_domain(domains):
    nobody = comparative_study(domains, StudySettings(TARGET, COMPARATOR, SICK, tie_orders=0))
    assert nobody.hazard_ratios["events"].sum() == 0
    with OmopDatabase(domains) as db:
        assert condition_cohorts(db, {5: SICK}).counts().empty
        # "bleeding" is an observation here, but people have it among their conditions
        assert len(condition_cohorts(db, {3: OUTCOME}).subject) == 40
        assert new_users(db).people["event"].sum()
