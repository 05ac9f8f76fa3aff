"""What grids do not tell: few people, and results that are blinded."""

import dataclasses
import math

import numpy as np
import pandas as pd
from tests.studies.test_tidied_covariates import made

from steropes.designs import covariate_balance
from steropes.studies.diagnostics.result_blinding import blinded
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.execution.result_store import archive_of
from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.release.grid_covariates_and_scores import hidden_names, released_balance
from steropes.studies.report.comparative_grid_page import grid_page, write_grid_report
from steropes.studies.report.grid_page_data import View
from steropes.studies.results.tables_shared_by_outcomes import balance_rows
from steropes.studies.viewer.result_sources import read_sources
from steropes.studies.viewer.results_page import results_views


def rare_covariates():
    """600 and 200 people, 24 rare covariates of them, who of them is matched, and the balance."""
    rng = np.random.default_rng(3)
    treated = np.repeat([1, 0], (600, 200))
    x = {1000 * k + 210: rng.random(800) < k / 400 for k in range(1, 25)}
    kept = np.arange(800) >= 400  # 200 of each arm
    balance = covariate_balance(made(x, 800), treated, kept.astype(float), estimand=None)
    return treated, x, kept, balance


OPEN, DEFAULT = DisclosureRules("none", 0), DisclosureRules()
COVARIATES = pd.DataFrame({"covariate_id": [], "covariate_analysis_id": []})


def balance_table(balance, rules=DEFAULT):
    exact = pd.DataFrame(balance_rows(balance, {}))
    return released_balance(exact, COVARIATES, rules).set_index("covariate_id")


def test_means_of_covariates_tell_no_few_people_before_or_after_matching():
    treated, x, kept, balance = rare_covariates()
    rows = balance_table(balance)
    exact = {
        (arm, when): pd.Series({i: v[(treated == a) & people].sum() for i, v in x.items()})
        for arm, a in (("target", 1), ("comparator", 0))
        for when, people in (("before", kept | True), ("after", kept))
    }
    sizes = {("target", "before"): 600}
    for (arm, when), n in exact.items():
        mean, size = rows[f"{arm}_mean_{when}"], sizes.get((arm, when), 200)
        few = (n > 0) & (n < 5)
        assert few.any()
        unit = {600: 0.01, 200: 0.05}[size]  # of 5 / 600 and 5 / 200, which would tell the size
        assert (mean[few.index[few]] == -unit).all(), (arm, when)
        assert np.allclose(mean[n.index[~few]], n[~few] / size, atol=0.5001 * unit)
    for when in ("before", "after"):
        arms = exact["target", when], exact["comparator", when]
        mean, total = rows[f"mean_{when}"], arms[0] + arms[1]
        hidden = total.index[(arms[0].between(1, 4)) | arms[1].between(1, 4)]
        assert (mean[hidden] < 0).all()  # else the few would follow
        true = total / (800 if when == "before" else 400)
        assert (true[hidden] < -mean[hidden] + 5.01e-3).all()


def test_a_mean_has_no_bound_if_nearly_everybody_in_one_arm_has_the_covariate():
    """A bound from the arm with few people alone would be wrong."""
    treated, person = np.repeat([1, 0], 100), np.arange(200)
    x = {1210: np.isin(person, (0, 1, 2)) | (person >= 102), 2210: person < 198}
    rows = balance_table(covariate_balance(made(x, 200), treated, np.ones(200)))
    assert rows.loc[1210, "target_mean_before"] < 0
    assert rows["comparator_mean_before"].isna().all()
    assert rows["mean_before"].isna().all()


def roots(other: float, difference: float) -> np.ndarray:
    """Shares of an arm whose standardised difference to the share ``other`` is this, or minus it.

    (p - q)^2 = d^2 (p (1 - p) + q (1 - q)) / 2, solved for p.
    """
    half = difference**2 / 2
    return np.roots([1 + half, -2 * other - half, other**2 - half * other * (1 - other)]).real


def test_no_few_people_follow_from_a_standardised_difference_and_the_other_mean():
    treated, x, kept, balance = rare_covariates()
    hidden = {1: set(), 0: set()}
    told = balance_table(balance)
    everything = balance_table(balance, OPEN)
    for when, people, sizes in (("before", kept | True, (200, 600)), ("after", kept, (200, 200))):
        for i, v in x.items():
            counts = [int((v[(treated == a) & people]).sum()) for a in (0, 1)]
            few = [0 < n < 5 for n in counts]
            for arm in (0, 1):
                if few[arm]:
                    hidden[arm].add(i)
            if few[0] and not few[1]:  # what could be had if the difference were told
                found = roots(counts[1] / sizes[1], everything.loc[i, f"std_diff_{when}"])
                assert counts[0] in np.round(found * sizes[0])
            for name in (f"std_diff_{when}", f"std_diff_var_{when}"):
                assert np.isnan(told.loc[i, name]) == any(few)
    assert set(told.index[told["target_std_diff"].isna()]) == hidden[1] != set()
    assert set(told.index[told["comparator_std_diff"].isna()]) == hidden[0] != set()
    assert hidden[0] | hidden[1] <= set(told.index[told["target_comparator_std_diff"].isna()])
    assert not everything.isna().any(axis=None)


def test_the_most_unequal_covariate_is_not_named_where_its_people_are_few():
    treated = np.repeat([1, 0], 100)
    x = {1210: np.isin(np.arange(200), (0, 1, 2)), 2210: np.arange(200) % 2 == 0}
    balance = covariate_balance(made(x, 200), treated, np.ones(200))
    rare, _ = balance.worst()
    named = balance.table[["covariate_id", "name"]].rename(columns={"name": "covariate_name"})
    named = named.assign(analysis_id=1)
    for rules, unnamed in ((DisclosureRules(), {(1, rare)}), (OPEN, set())):
        told = balance_table(balance, rules).reset_index().assign(analysis_id=1)
        assert hidden_names(told, named) == unnamed


def test_the_page_counts_the_covariates_beyond_the_limit_that_hide_no_count(
    database, spec, tmp_path
):
    found = run_grid(database, dataclasses.replace(spec, min_cell=80), tmp_path)
    balance = found.tables["cm_shared_covariate_balance"]
    hidden = balance["std_diff_after"].isna()
    assert 0 < hidden.sum() <= len(balance)
    page = grid_page(View(found))
    for analysis, of in balance.groupby("analysis_id"):
        over = int((of["balanced_after"] == 0).sum())
        known = int(of["balanced_after"].notna().sum())
        assert known < len(of)
        assert f"{over:,} of {known:,} covariates differ by more than" in page, analysis
        assert f"({len(of) - known:,} more have few people in an arm and count" in page, analysis
    assert "covariates of which no arm has few people; dashed" in page or hidden.all()


def test_few_outcomes_do_not_follow_from_the_detectable_ratio(database, spec, results, tmp_path):
    found = run_grid(database, dataclasses.replace(spec, min_cell=80), tmp_path).tables
    key = ["outcome_id", "analysis_id"]
    few = (found["cm_result"][["target_outcomes", "comparator_outcomes"]] == -80).any(axis=1)
    checks = found["cm_result"][key].assign(few=few).merge(found["cm_diagnostics_summary"], on=key)
    known = checks[key].merge(results.tables["cm_diagnostics_summary"], on=key)
    none = known["mdrr"].isna()
    assert few.any()
    assert not few.all()
    assert (checks["mdrr"].isna() == (checks["few"] | none)).all()
    few = checks["few"]
    for verdict in ("mdrr_diagnostic", "unblind"):
        assert (checks.loc[~few, verdict] == known.loc[~few, verdict]).all()
    # Where it is withheld, it is judged by the fewest outcomes that are possible.
    assert (known.loc[few, "mdrr_diagnostic"] == "PASS").any()
    assert known.loc[few & checks["mdrr_diagnostic"].eq("PASS"), "mdrr_diagnostic"].eq("PASS").all()


def test_small_cells_are_not_written(database, spec, tmp_path):
    found = run_grid(database, dataclasses.replace(spec, min_cell=80), tmp_path).tables
    counts = found["cm_result"][["target_outcomes", "comparator_outcomes"]].to_numpy()
    assert (counts == -80).any()
    few = found["cm_result"][(counts == -80).any(axis=1)][["outcome_id", "analysis_id"]]
    assert found["cm_kaplan_meier_dist"].merge(few).empty
    assert not ((counts > 0) & (counts < 80)).any()
    assert not found["cm_attrition"]["subjects"].between(1, 79).any()
    means = found["cm_shared_covariate_balance"]["target_mean_before"]
    assert (means < 0).any()


def all_failed(results):

    checks = results.tables["cm_diagnostics_summary"].assign(unblind=0)
    return dataclasses.replace(results, tables={**results.tables, "cm_diagnostics_summary": checks})


def test_outcomes_of_blinded_results_are_in_no_output(results, tmp_path):
    blind = all_failed(results)
    columns = [f"{arm}_{of}" for of in ("outcomes", "days") for arm in ("target", "comparator")]
    assert blind.estimates()[columns].isna().all(axis=None)
    shown = blind.estimates(unblind=True).query("outcome_id == 13")
    assert shown[columns].notna().all(axis=None)
    assert results.estimates().query("outcome_id == 13")[columns].notna().all(axis=None)
    page = write_grid_report(blind, tmp_path).read_text()
    assert (
        pd.read_csv(tmp_path / "release" / "tables" / "estimates.csv")[columns]
        .isna()
        .all(axis=None)
    )
    assert not [*(tmp_path / "release" / "figures").glob("survival-*")]
    # Outcomes, days and follow-up of both arms, for two outcomes and two analyses.
    assert page.count(">not shown</td>") == 3 * 2 * 2 * 2
    assert "Days followed" not in page
    assert "Days followed" in grid_page(View(blind, True))
    label = 'data-label="With the outcome">'
    for count in shown[columns[:2]].to_numpy().ravel():
        assert f"{label}{count}</td>" not in page
        assert f"{label}{count}</td>" in grid_page(View(blind, True))


def test_a_note_on_one_arm_of_a_blinded_result_tells_no_outcomes():
    rows = pd.DataFrame(
        {
            "rr": [2.0, math.nan, math.nan, math.nan],
            "target_subjects": [90] * 4,
            "comparator_subjects": [90] * 4,
            "target_outcomes": [7, 0, 0, 0],
            "comparator_outcomes": [9, 9, 9, 0],
            "note": ["", "nobody in the target arm", "nobody in the target arm", "nobody at all"],
            "unblind": [0, 0, 1, 0],
        }
    )
    found = blinded(rows)
    assert found["rr"].isna().all()
    assert found["target_outcomes"].isna().tolist() == [True, True, False, True]
    assert found["note"].tolist()[2:] == ["nobody in the target arm", "nobody at all"]
    assert "target" not in found["note"][1]
    assert rows["rr"][0] == 2.0


def test_blinded_results_are_neither_in_estimates_nor_on_the_page(results):
    blind = all_failed(results)
    hidden = blind.estimates()
    for column in ("rr", "ci_95_lb", "p", "log_rr", "llr", "calibrated_rr", "calibrated_p"):
        assert hidden[column].isna().all()
    assert blind.estimates(unblind=True)["rr"].notna().any()
    page, open_page = grid_page(View(blind)), grid_page(View(blind, True))
    one = results.tables["cm_result"].query("outcome_id == 13").iloc[0]
    said = f"{one.rr:.2f} ({one.ci_95_lb:.2f} to {one.ci_95_ub:.2f})"
    risk = results.tables["absolute_effect"].query("outcome_id == 13").iloc[0]
    risk = f"{100 * risk.risk_difference:.2f} (".replace("-", "−")
    assert said in open_page
    assert said not in page
    assert risk in open_page
    assert risk not in page
    assert "Survival curves" not in page


def test_the_page_of_results_shows_the_estimates_of_the_report(results, tmp_path):
    """Of a real grid, it has what ``estimates()`` shows, and the controls."""
    checks = results.tables["cm_diagnostics_summary"]
    failing = checks.assign(unblind=checks["analysis_id"].eq(2).astype(int))
    changed = dataclasses.replace(
        results, tables={**results.tables, "cm_diagnostics_summary": failing}
    )
    write_release(tmp_path, {"results.zip": archive_of(changed.tables)}, changed.rules)
    views = results_views(read_sources([tmp_path]), DEFAULT)
    of = next(view for view in views if view.name == "estimates").table
    of = of[of["role"] == "of interest"].set_index(["outcome_id", "analysis_id"]).sort_index()
    expected = changed.estimates().set_index(["outcome_id", "analysis_id"]).sort_index()
    assert expected["rr"].isna().any()
    assert expected["rr"].notna().any()
    for name in ("rr", "ci_95_lb", "ci_95_ub", "p", "calibrated_rr", "target_outcomes"):
        np.testing.assert_allclose(
            of[name].to_numpy(dtype=float, na_value=np.nan),
            expected[name].to_numpy(dtype=float, na_value=np.nan),
            rtol=1e-12,
        )


def test_a_balance_without_matched_people_is_released_with_rounded_counts():
    """A study that ends before matching has no means after it."""
    exact = pd.DataFrame(balance_rows(rare_covariates()[3], {}))
    after = [name for name in exact if name.endswith("_after")]
    nobody = {name: 0 if "_people_" in name else np.nan for name in after}
    rows = released_balance(exact.assign(**nobody), COVARIATES, DisclosureRules("opensafely"))
    assert rows[[name for name in rows if name.endswith("_after")]].isna().all(axis=None)
    assert rows["target_mean_before"].notna().all()
