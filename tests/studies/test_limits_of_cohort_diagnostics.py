"""Tables of cohort diagnostics without some rows, which are too many or withheld."""

import numpy as np
import pandas as pd
from tests.studies.conftest import START
from tests.studies.test_cohort_diagnostics import A, definition, item

from steropes.studies import OmopDatabase
from steropes.studies.cohort_diagnostics.cohort_findings import cohort_findings
from steropes.studies.cohort_diagnostics.diagnostic_tables import (
    INCIDENCE,
    RELATIONSHIPS,
    SERIES,
    AskedDiagnostics,
    cohort_diagnostics,
)
from steropes.studies.cohort_diagnostics.diagnostic_tables import WINDOWS as WINDOWS_PART
from steropes.studies.cohorts import CohortTable
from steropes.studies.covariates import window_summaries
from steropes.studies.covariates.window_summaries import WindowRules
from steropes.studies.database.sources import table_source


def test_tables_with_too_many_rows_are_left_out_by_name(omop, monkeypatch):
    people = [omop.person() for _ in range(2)]
    omop.concept(A, "asthma")
    ids, start = [1, 2, 1, 2], [np.datetime64(START)] * 4
    asked = [definition(i, [item(A)]) for i in (1, 2)]
    rules = AskedDiagnostics(windows=WindowRules((1,), ((0, 0),), cohorts=True), series=True)
    monkeypatch.setattr(table_source, "MOST_ROWS", 0)
    monkeypatch.setattr(window_summaries, "MOST_ROWS", 1)
    with OmopDatabase(omop.write()) as db:
        cohorts = CohortTable(ids, np.repeat(people, 2), start, start)
        found = cohort_diagnostics(db, asked, cohorts, rules, lambda _: None)
    assert {*found.left_out} == {INCIDENCE, RELATIONSHIPS, SERIES, WINDOWS_PART}
    assert found.left_out[RELATIONSHIPS] == (
        "left out, because there are more than 0 pairs of cohorts: examine fewer cohorts at a time"
    )
    assert found.windows is None
    assert found.counts["people"].tolist() == [2, 2]
    assert "index_event_breakdown" in found.tables


def test_first_entries_that_jump_are_described_where_person_years_are_withheld():
    """As they are in most years of a small database."""
    table = pd.DataFrame({"calendar_year": ["2000", "2001", "2002"], "cohort_count": [40, 40, 300]})
    missing = {"person_years": np.nan, "incidence_rate": np.nan, "age_group": None, "gender": None}
    table = table.assign(cohort_id=1, **missing)
    found = cohort_findings({"cd_incidence_rate": table}, {1: "seasonal"}, {}, {})
    assert [*found.loc[found["topic"] == "incidence", "finding"]] == [
        "First entries rise abruptly from 2001 to 2002: from 40 to 300; person-years of these "
        "years are withheld."
    ]
