"""Case series of several databases: combined on the page, unless a hidden estimate could follow."""

import numpy as np
import pandas as pd
import pytest

from steropes.designs.evidence.meta_analysis import combine_normal
from steropes.studies.archives.series_synthesis import combine_series_tables
from steropes.studies.diagnostics.archive_blinding import HIDDEN
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.viewer.result_sources import ResultSource
from steropes.studies.viewer.results_page import results_views

SE = 0.2


def series(database, ratios, *, unblind=1, synthesis=1, outcome=3, truth=None):
    """Tables of one database, with a question for each ratio and a likelihood that is normal."""
    sets = np.arange(7, 7 + len(ratios))
    key = {"exposures_outcome_set_id": sets, "analysis_id": 1, "covariate_id": 1001}
    key |= {"database_id": database}
    log_rr = np.log(ratios)
    results = pd.DataFrame({**key, "rr": ratios, "log_rr": log_rr, "se_log_rr": SE})
    results["ci_95_lb"] = np.exp(log_rr - 1.96 * SE)
    results["ci_95_ub"] = np.exp(log_rr + 1.96 * SE)
    results["covariate_outcomes"] = 30
    grid = np.linspace(-3, 3, 61)
    profiles = pd.concat(
        pd.DataFrame({**{k: np.take(v, n) if k == "exposures_outcome_set_id" else v
                         for k, v in key.items()},
                      "log_rr": grid, "log_likelihood": -((grid - x) ** 2) / (2 * SE**2)})
        for n, x in enumerate(log_rr)
    )  # fmt: skip
    flags = {"unblind": unblind, "unblind_for_evidence_synthesis": synthesis}
    return {
        "sccs_result": results,
        "sccs_diagnostics_summary": pd.DataFrame({**key, **flags}),
        "sccs_likelihood_profile": profiles,
        "sccs_exposures_outcome_set": pd.DataFrame(
            {"exposures_outcome_set_id": sets, "outcome_id": outcome}
        ),
        "sccs_exposure": pd.DataFrame(
            {"exposures_outcome_set_id": sets, "era_id": 1, "true_effect_size": truth}
        ),
        "sccs_analysis": pd.DataFrame({"analysis_id": [1], "description": ["windows"]}),
        "sccs_covariate": pd.DataFrame({**key, "covariate_name": "exposure"}),
    }


def view(*tables, **options):
    sources = [ResultSource(f"s{n}", "not known", t) for n, t in enumerate(tables)]
    found = results_views(sources, DisclosureRules(), **options)
    return next((v for v in found if v.name == "series-synthesis"), None)


def test_rate_ratios_are_combined_as_other_estimates():
    table = combine_series_tables([series("a", [1.2]), series("b", [1.8])])
    by_method = table.set_index("method")["log_rr"]
    expected = combine_normal(np.log([1.2, 1.8]), [SE, SE]).log_rr
    assert by_method["fixed, normal"] == pytest.approx(expected)
    assert by_method["fixed, profile"] == pytest.approx(expected, abs=1e-4)
    assert table["databases"].tolist() == [2] * 4


def test_the_page_names_the_questions_and_windows():
    table = view(series("a", [1.2]), series("b", [1.8])).data()
    assert {*table["covariate_name"]} == {"exposure"}
    assert {*table["analysis"]} == {"Windows"}
    assert table["rr"].notna().all()
    assert view(series("a", [1.2])) is None
    assert view(series("a", [1.2]), series("b", [1.8]), combine=False) is None


def test_a_hidden_database_does_not_follow_from_the_combination():
    weak = series("b", [3.777], unblind=0)
    found = view(series("a", [1.2]), weak).table
    assert found[HIDDEN].all()
    numbers = ["rr", "log_rr", "se_log_rr", "tau", "i_squared", "pi_95_lb"]
    assert found[numbers].isna().all(axis=None)
    assert view(series("a", [1.2]), weak, unblind=True).table["rr"].notna().all()
    excluded = view(series("a", [1.2]), series("b", [3.777], unblind=0, synthesis=0)).table
    assert excluded["databases"].tolist() == [1] * 4


def test_questions_that_mean_something_else_elsewhere_are_not_combined():
    table = combine_series_tables([series("a", [1.2]), series("b", [1.8], outcome=4)])
    assert len(table) == 0
    assert view(series("a", [1.2]), series("b", [1.8], outcome=4)) is None


def test_controls_are_not_combined():
    assert len(combine_series_tables([series(d, [1.2], truth=1.0) for d in "ab"])) == 0


def test_a_failed_combination_states_the_reason():
    short = [
        t | {"sccs_result": t["sccs_result"].drop(columns="se_log_rr")}
        for t in (series("a", [1.2]), series("b", [1.8]))
    ]
    found = view(*short)
    assert found.table["note"].str.contains("are not combined: a table has no column").all()
    assert found.table["status"].tolist() == found.table["note"].tolist()
    again = view(series("a", [1.2]), series("a", [1.2]))
    assert again.table["note"].str.contains("a result of the same database").all()
    bare = [{n: t for n, t in series(d, [1.2]).items() if n != "sccs_covariate"} for d in "ab"]
    assert view(*bare).table["rr"].notna().all()


def test_outcomes_of_interest_come_before_controls():
    tables = series("a", [1.2, 1.8, 0.7], truth=[1.0, None, 1.0])
    found = results_views([ResultSource("s", "not known", tables)], DisclosureRules())
    for name in ("series-estimates", "series-likelihood"):
        (table,) = [v.table for v in found if v.name == name]
        order = table["exposures_outcome_set_id"].drop_duplicates().tolist()
        assert order == tables["sccs_result"]["exposures_outcome_set_id"].iloc[[1, 0, 2]].tolist()
