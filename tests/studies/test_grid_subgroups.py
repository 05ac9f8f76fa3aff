"""Effects within subgroups in a grid: its tables, small cells, calibration and page."""

import dataclasses

import duckdb
import numpy as np
import pandas as pd
import pytest

from steropes.designs import OutcomeModel
from steropes.designs.controls import calibrate, fit_systematic_error
from steropes.studies import GridSpec
from steropes.studies.cohorts import ConceptSet, TimeAtRisk
from steropes.studies.comparative import Question, StudyAnalysis
from steropes.studies.covariates import FeatureRules
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.execution.result_store import ResultStore
from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.grids.grid_steps import ComparativeDesign
from steropes.studies.report.comparative_grid_page import grid_page, write_grid_report
from steropes.studies.report.grid_page_data import View
from steropes.studies.result_files.table_layouts import EXACT, EXACT_KEYS
from steropes.studies.specifications.grid_specification import CohortSources, ControlSet

FEMALE = 8532001
CONTROLS = (5, 6, 7, 8, 9)
SPEC = GridSpec(
    CohortSources(
        drugs={11: ConceptSet((1,)), 12: ConceptSet((2,))}, conditions={13: ConceptSet((3,))}
    ),
    (Question(11, 12, (13,)),),
    (
        StudyAnalysis(
            1, "by sex", propensity=None, features=FeatureRules(analyses=(1,)),
            at_risk=TimeAtRisk(end=500, end_anchor="cohort start"),
            outcome_model=OutcomeModel(interactions=(FEMALE,), interval="wald"),
        ),
    ),
    ControlSet(concepts=CONTROLS),
)  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    from tests.studies.conftest import TinyOmop

    omop, rng = TinyOmop(tmp_path_factory.mktemp("omop")), np.random.default_rng(1)
    for concept in CONTROLS:
        omop.concept(concept, f"condition {concept}")
    for k in range(400):
        sex = 8532 if rng.random() < 0.9 else 8507
        drug = ("target", "comparator")[k % 2]
        person = omop.person(**{drug: int(rng.integers(0, 100))}, sex=sex)
        for concept in (3, *CONTROLS):
            if rng.random() < 0.25:
                omop.condition(person, concept, int(rng.integers(101, 500)))
    return run_grid(omop.write(), SPEC, tmp_path_factory.mktemp("results"), disclosure="none")


def released(results):
    """The tables of the same grid by the rules that apply if nothing is asked for."""
    with ResultStore(results.path, signature(results.path), EXACT, EXACT_KEYS) as store:
        exact = {name: store.table(name) for name in EXACT}
    return ComparativeDesign(results.spec).release(exact, DisclosureRules())


def signature(path):
    with duckdb.connect(str(path), read_only=True) as db:
        return db.execute("SELECT step FROM progress WHERE kind = 'signature'").fetchone()[0]


def test_interactions_are_calibrated_by_those_of_negative_controls(results):
    table = results.tables["cm_interaction_result"].set_index("outcome_id")
    controls = table.loc[list(CONTROLS)]
    error = fit_systematic_error(controls["log_rr"], controls["se_log_rr"])
    line = table.loc[13]
    wanted = calibrate(line["log_rr"], line["se_log_rr"], error)
    assert line["calibrated_log_rr"] == pytest.approx(wanted.log_rr, abs=1e-12)
    assert line["calibrated_p"] == pytest.approx(wanted.p, abs=1e-12)
    assert line["calibrated_ci_95_lb"] == pytest.approx(np.exp(wanted.lower), rel=1e-12)


def test_subgroups_sum_to_all_and_hide_small_cells_of_both(results):
    exact = results.tables["subgroup"].query("outcome_id == 13").set_index("level")
    whole = results.tables["cm_result"].query("outcome_id == 13").iloc[0]
    for arm in ("target", "comparator"):
        assert exact[f"{arm}_subjects"].sum() == whole[f"{arm}_subjects"]
        assert exact[f"{arm}_days"].sum() == whole[f"{arm}_days"]
    assert (exact["ci_95_lb"] < exact["rr"]).all()
    assert (exact["rr"] < exact["ci_95_ub"]).all()
    tables = released(results)
    table = tables["subgroup"].query("outcome_id == 13").set_index("level")
    hidden = table[["target_outcomes", "comparator_outcomes"]].isna()
    # Few of the few men had the outcome, and who of both had it is not said.
    assert hidden.all().any()
    assert (hidden.all() == hidden.any()).all()
    effects = ["rr", "ci_95_lb", "ci_95_ub", "se_log_rr"]
    assert table[effects].isna().all(axis=None)  # the few would follow from their errors
    assert tables["cm_interaction_result"].query("outcome_id == 13").empty


def test_subgroups_are_on_the_page_and_in_a_table_unless_blinded(results, tmp_path):
    write_grid_report(flagged(results, 1), tmp_path / "open")
    line = results.tables["subgroup"].query("outcome_id == 13 and level == 1").iloc[0]
    said = f"{line.rr:.2f} ({line.ci_95_lb:.2f} to {line.ci_95_ub:.2f})"
    assert said in (tmp_path / "open" / "release" / "report.html").read_text()
    table = pd.read_csv(tmp_path / "open" / "release" / "tables" / "subgroups.csv").query(
        "outcome_id == 13"
    )
    assert table["characteristic"].tolist() == ["gender: Female"] * 2
    assert [*(tmp_path / "open" / "release" / "figures").glob("subgroups-*")]
    blind = flagged(results, 0)
    write_grid_report(blind, tmp_path / "blind")
    assert said not in grid_page(View(blind))
    withheld = "Not released (by sex), because a count of few people would follow."
    assert withheld not in grid_page(View(flagged(results, 1)))
    strict = dataclasses.replace(flagged(results, 1), tables={
        **flagged(results, 1).tables,
        **{n: released(results)[n] for n in ("subgroup", "cm_interaction_result")},
    })  # fmt: skip
    assert withheld in grid_page(View(strict))
    assert pd.read_csv(tmp_path / "blind" / "release" / "tables" / "subgroups.csv").empty


def flagged(results, unblind):
    """The results as if all passed, or failed, the diagnostics."""
    checks = results.tables["cm_diagnostics_summary"].assign(unblind=unblind)
    tables = {**results.tables, "cm_diagnostics_summary": checks}
    return dataclasses.replace(results, tables=tables)
