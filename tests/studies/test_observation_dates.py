"""A period of observation without an end has no days to count."""

import duckdb
import pytest
from tests.studies.conftest import COMPARATOR, OUTCOME, TARGET, day

from steropes.errors import DataError
from steropes.studies import (
    OmopDatabase,
    StudySettings,
    case_series,
    case_series_settings,
    comparative_study,
)
from steropes.studies.cohorts import CohortTable, ComparisonRules, compare_cohorts


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "VARCHAR"])
@pytest.mark.parametrize(("end", "date"), [("start", "-infinity"), ("end", "infinity")])
def test_infinite_dates_are_refused_by_column_and_count(omop, end, date, kind):
    for k in range(8):
        omop.person(outcome=5, **{"target" if k % 2 else "comparator": 3}, observed=(-400, 99))
    path, column = omop.write(), f"observation_period_{end}_date"
    with duckdb.connect(str(path)) as con:
        con.execute(f"ALTER TABLE observation_period ALTER {column} TYPE {kind}")
        con.execute(f"UPDATE observation_period SET {column} = '{date}' WHERE person_id < 7")
    said = rf"observation_period: {column} is infinite in 6 rows"
    with pytest.raises(DataError, match=said):
        case_series(path, case_series_settings(OUTCOME, TARGET))
    with pytest.raises(DataError, match=said):
        comparative_study(path, StudySettings(TARGET, COMPARATOR, OUTCOME))
    entries = [(1 + k % 2, k, day(3), day(50)) for k in range(1, 9)]
    cohorts = CohortTable(*zip(*entries, strict=True))
    with OmopDatabase(path) as db, pytest.raises(DataError, match=said):
        compare_cohorts(db, cohorts, 1, 2, ComparisonRules())
