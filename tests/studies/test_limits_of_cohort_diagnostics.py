"""Tables of cohort diagnostics that are left out by name, because they have too many rows."""

import numpy as np
from tests.studies.conftest import START
from tests.studies.test_cohort_diagnostics import A, definition, item

from steropes.studies import OmopDatabase
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
