"""Meta-analyses of a specification agree with the closed forms for normal likelihoods."""

import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from steropes.designs.evidence import combine_normal
from steropes.errors import DataError
from steropes.studies.cli.command_line import run
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.strategus.synthesis_run import synthesis_tables
from steropes.studies.strategus_plans.synthesis_plan import synthesis_plan
from steropes.studies.viewer.result_sources import read_sources
from steropes.studies.viewer.results_page import results_views

EFFECTS = {"north": 0.3, "south": 0.5, "west": 0.1}
ERRORS = {"north": 0.2, "south": 0.25, "west": 0.3}
CONTROLS = list(range(11, 19))
RULES = DisclosureRules()


def settings(kind="BayesianMetaAnalysis", approximation="adaptive grid", **changes):
    source = changes.pop("source", "CohortMethod")
    return {
        "evidenceSynthesisAnalysisList": [
            {
                "alpha": 0.05,
                "evidenceSynthesisAnalysisId": 1,
                "evidenceSynthesisDescription": "combined",
                "evidenceSynthesisSource": {
                    "sourceMethod": source,
                    "likelihoodApproximation": approximation,
                    "attr_class": "EvidenceSynthesisSource",
                },
                "controlType": "outcome",
                "attr_class": [kind, "EvidenceSynthesisAnalysis"],
                **({"priorSd": [2, 0.5], "robust": False, "df": 4, "seed": 1, "burnIn": 100000,
                    "chainLength": 1100000, "subSampleFrequency": 100}
                   if kind == "BayesianMetaAnalysis" else {}),
                **changes,
            }
        ],
        "esDiagnosticThresholds": {
            "mdrrThreshold": 10, "easeThreshold": 0.25, "i2Threshold": 0.4, "tauThreshold": 0.6931,
        },
    }  # fmt: skip


def estimate(database, outcome):
    """Return log ratio and error; controls scatter around zero."""
    if outcome == 3:
        return EFFECTS[database], ERRORS[database]
    rng = np.random.default_rng([outcome, len(database)])
    return float(rng.normal(0, 0.1)), 0.15


def write(folder, database, prefix, key, **changes):
    """Write the tables of one database for one method."""
    folder.mkdir(parents=True)
    results, checks, profiles = [], [], []
    for outcome in (3, *CONTROLS):
        log_rr, se = estimate(database, outcome)
        ids = key(outcome) | {"analysis_id": 1, "database_id": database}
        bounds = np.exp([log_rr, log_rr - 1.96 * se, log_rr + 1.96 * se])
        names = ("rr", "ci_95_lb", "ci_95_ub")
        counts = dict.fromkeys(changes["counts"], 100)
        counts |= {changes["counts"][0]: -5 if database == "west" else 40}
        row = dict(zip(names, bounds, strict=True))
        results.append(
            ids | row | {"p": 0.5, "one_sided_p": 0.25, "log_rr": log_rr, "se_log_rr": se} | counts
        )
        flag = int(not (database == "west" and outcome == 11))
        checks.append(ids | {"unblind_for_evidence_synthesis": flag, "mdrr": 1.5})
        grid = np.linspace(log_rr - 12 * se, log_rr + 12 * se, 97)
        profiles += [
            ids | {"log_rr": x, "log_likelihood": -(((x - log_rr) / se) ** 2) / 2,
                   "gradient": -(x - log_rr) / se**2}
            for x in grid
        ]  # fmt: skip
    for name, rows in (
        ("result", results), ("diagnostics_summary", checks), ("likelihood_profile", profiles),
    ):  # fmt: skip
        pd.DataFrame(rows).to_csv(folder / f"{prefix}_{name}.csv", index=False)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("databases")
    arms = ("subjects", "days", "outcomes")
    for database in EFFECTS:
        cm = root / database / "CohortMethodModule"
        counts = [f"{arm}_{c}" for c in arms for arm in ("target", "comparator")]
        write(
            cm, database, "cm",
            lambda o: {"target_comparator_id": 894409308, "outcome_id": o}, counts=counts,
        )  # fmt: skip
        pd.DataFrame(
            [{"target_comparator_id": 894409308, "target_id": 1, "comparator_id": 2,
              "nesting_cohort_id": None}]
        ).to_csv(cm / "cm_target_comparator.csv", index=False)  # fmt: skip
        pd.DataFrame(
            {
                "target_comparator_id": 894409308,
                "outcome_id": [3, *CONTROLS],
                "true_effect_size": [None, *[1.0] * len(CONTROLS)],
            }
        ).to_csv(cm / "cm_target_comparator_outcome.csv", index=False)
        sccs = root / database / "SelfControlledCaseSeriesModule"
        counts = [
            "outcome_subjects", "outcome_events", "outcome_observation_periods",
            "covariate_subjects", "covariate_days", "covariate_eras", "covariate_outcomes",
            "observed_days",
        ]  # fmt: skip
        write(
            sccs, database, "sccs",
            lambda o: {"exposures_outcome_set_id": 1000 + o, "covariate_id": 1001}, counts=counts,
        )  # fmt: skip
        sets = [1000 + o for o in (3, *CONTROLS)]
        truth = [None, *[1.0] * len(CONTROLS)]
        pd.DataFrame(
            {"exposures_outcome_set_id": sets, "era_id": 1, "true_effect_size": truth}
        ).to_csv(sccs / "sccs_exposure.csv", index=False)
        pd.DataFrame(
            {
                "exposures_outcome_set_id": sets,
                "outcome_id": [3, *CONTROLS],
                "nesting_cohort_id": None,
            }
        ).to_csv(sccs / "sccs_exposures_outcome_set.csv", index=False)
    return [root / database for database in EFFECTS]


def combined(folders, given):
    plan = synthesis_plan(given, ("settings",))
    assert not any(v.reason for v in plan.verdicts)
    tables = synthesis_tables(plan, folders)
    prefix = "es_sccs" if "es_sccs_result" in tables else "es_cm"
    return tables[f"{prefix}_result"], tables[f"{prefix}_diagnostics_summary"]


def inverse_variance():
    weight = {d: 1 / s**2 for d, s in ERRORS.items()}
    total = sum(weight.values())
    return sum(EFFECTS[d] * w for d, w in weight.items()) / total, total**-0.5


@pytest.mark.sampled
@pytest.mark.parametrize("approximation", ["normal", "adaptive grid", "grid with gradients"])
@pytest.mark.parametrize("source", ["CohortMethod", "SelfControlledCaseSeries"])
def test_fixed_effects_weight_by_the_inverse_variance(folders, approximation, source):
    given = settings("FixedEffectsMetaAnalysis", approximation, source=source)
    results, _ = combined(folders, given)
    row = results.iloc[0]
    mean, error = inverse_variance()
    assert row["log_rr"] == pytest.approx(mean, abs=1e-4)
    assert row["se_log_rr"] == pytest.approx(error, rel=1e-3)
    assert row["p"] == pytest.approx(2 * norm.sf(abs(mean / error)), rel=0.02)
    assert row["n_databases"] == 3


def test_the_bayesian_posterior_with_little_spread_is_that_of_fixed_effects(folders):
    results, checks = combined(folders, settings(priorSd=[100, 1e-4]))
    mean, error = inverse_variance()
    assert results["log_rr"].iloc[0] == pytest.approx(mean, abs=1e-3)
    assert results["se_log_rr"].iloc[0] == pytest.approx(error, rel=0.01)
    wide, spread = combined(folders, settings())
    assert wide["se_log_rr"].iloc[0] > error
    assert spread["tau"].iloc[0] > checks["tau"].iloc[0]
    assert spread["tau_diagnostic"].iloc[0] == "PASS"


def test_power_systematic_error_and_calibration(folders):
    results, checks = combined(folders, settings())
    error = results["se_log_rr"].iloc[0]
    detectable = math.exp((norm.ppf(0.975) + norm.ppf(0.8)) * error)
    assert checks["mdrr"].iloc[0] == pytest.approx(detectable)
    assert checks["ease"].between(0, 0.25).all()
    assert (checks["unblind"] == 1).all()
    assert results["calibrated_log_rr"].notna().all()
    assert results["calibrated_se_log_rr"].iloc[0] >= error


def test_databases_that_fail_a_diagnostic_are_left_out(folders):
    results, _ = combined(folders, settings("RandomEffectsMetaAnalysis", "normal"))
    by_outcome = results.set_index("outcome_id")
    assert by_outcome.at[11, "n_databases"] == 2
    assert by_outcome.at[3, "n_databases"] == 3
    # One count is a limit, and so is the sum.
    assert by_outcome.at[3, "target_subjects"] == -85
    assert by_outcome.at[11, "target_subjects"] == 80


def test_a_single_database_is_its_own_result(folders):
    results, checks = combined(folders[:1], settings())
    assert results["log_rr"].iloc[0] == pytest.approx(0.3)
    assert results["p"].iloc[0] == 0.5
    assert checks["mdrr"].iloc[0] == 1.5
    assert checks["tau_diagnostic"].iloc[0] == "NOT EVALUATED"


@pytest.mark.parametrize(
    ("prefix", "outcomes", "source"),
    [
        ("cm", ["target_outcomes", "comparator_outcomes"], "CohortMethod"),
        ("sccs", ["covariate_outcomes"], "SelfControlledCaseSeries"),
    ],
)
def test_the_hidden_result_of_a_single_database_is_in_no_table(
    folders, tmp_path, prefix, outcomes, source
):
    """A result without power takes part in synthesis, and a synthesis of it alone would show it."""
    folder = tmp_path / "alone"
    shutil.copytree(folders[0], folder)
    for path in folder.rglob(f"{prefix}_diagnostics_summary.csv"):
        pd.read_csv(path).assign(unblind=0).to_csv(path, index=False)
    results, checks = combined([folder], settings(source=source))
    effect = ["rr", "ci_95_lb", "ci_95_ub", "p", "log_rr", "se_log_rr", "calibrated_rr"]
    assert results.loc[0, [*effect, *outcomes]].isna().all()
    assert results.loc[1:, "rr"].notna().all()  # The effects of controls are known.
    assert checks["unblind"].tolist() == [0, *[1] * (len(checks) - 1)]
    both, _ = combined([folder, folders[1]], settings(source=source))
    assert both["rr"].notna().all()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"robust": True}, "t distribution"),
        ({"alpha": 0.1}, "95 %"),
        ({"priorSd": [2, -1]}, "two positive numbers"),
        ({"controlType": "exposure"}, "controls are outcomes"),
        ({"attr_class": "VotingMetaAnalysis"}, "no method"),
        ({"speed": 1}, r"evidenceSynthesisAnalysisList\[0\].speed is not known"),
    ],
)
def test_what_has_no_counterpart_does_not_run(changes, said):
    import re

    plan = synthesis_plan(settings(**changes), ("settings",))
    assert re.search(said, plan.verdicts[0].reason)


@pytest.mark.parametrize(("threshold", "said"), [(None, False), ({}, False), (0.1, True)])
def test_a_limit_of_balance_is_read_and_said_not_to_apply(threshold, said):
    given = settings()
    given["esDiagnosticThresholds"] |= {"sdmThreshold": threshold, "sdmAlpha": None}
    (verdict,) = synthesis_plan(given, ("settings",)).verdicts
    assert any("balance over databases" in text for text in verdict.differences) == said


def test_folders_without_results_are_refused(folders, tmp_path):
    plan = synthesis_plan(settings(), ("settings",))
    with pytest.raises(DataError, match="name a folder with results by module"):
        synthesis_tables(plan, [tmp_path])
    with pytest.raises(DataError, match="two folders have results of the database north"):
        synthesis_tables(plan, [folders[0], folders[0]])


def test_the_command_combines_folders(folders, tmp_path):
    path = tmp_path / "synthesis.json"
    module = {"module": "EvidenceSynthesisModule", "settings": settings()}
    path.write_text(json.dumps({"moduleSpecifications": [module]}))
    named = [word for folder in folders for word in ("--results", str(folder))]
    assert run(["strategus", str(path), *named, "--output", str(tmp_path / "out")]) == 0
    release = tmp_path / "out/release/EvidenceSynthesisModule"
    table = pd.read_csv(release / "es_cm_result.csv")
    assert len(table) == 1 + len(CONTROLS)
    assert table["target_id"].tolist() == [1] * len(table)
    # R's tables have no limits for a further database; they are in a table beside them.
    assert "pi_95_lb" not in table
    limits = table.merge(pd.read_csv(release / "es_prediction.csv"), validate="one_to_one")
    assert (limits["pi_95_lb"] < limits["ci_95_lb"]).all()
    assert (limits["pi_95_ub"] > limits["ci_95_ub"]).all()
    shown = {v.name: v.data() for v in results_views(read_sources([tmp_path / "out"]), RULES)}
    shown = shown["synthesis-cm"].sort_values("outcome_id")
    assert shown["pi_95_lb"].to_numpy() == pytest.approx(limits["pi_95_lb"].to_numpy(), rel=1e-3)


@pytest.mark.parametrize("source", ["CohortMethod", "SelfControlledCaseSeries"])
def test_random_effects_predict_a_further_database(folders, source):
    for method in ("RandomEffectsMetaAnalysis", "FixedEffectsMetaAnalysis"):
        plan = synthesis_plan(settings(method, "normal", source=source), ("settings",))
        tables = synthesis_tables(plan, folders)
        results = tables["es_cm_result" if source == "CohortMethod" else "es_sccs_result"]
        further = tables["es_prediction"]
        if method == "FixedEffectsMetaAnalysis":  # The effect is the same everywhere.
            assert not len(further)
            continue
        # Two databases are too few for a t quantile with k − 2 degrees of freedom.
        assert len(further) == results["n_databases"].ge(3).sum() == len(results) - 1
        y, s = ([table[d] for d in EFFECTS] for table in (EFFECTS, ERRORS))
        own = combine_normal(y, s, random=True)
        assert np.log(further["pi_95_ub"].iloc[0]) == pytest.approx(own.predicted_upper)


@pytest.mark.parametrize("source", ["CohortMethod", "SelfControlledCaseSeries"])
def test_a_meta_analysis_without_an_estimate_tells_why(folders, tmp_path, capsys, source):
    prefix = {"CohortMethod": "cm", "SelfControlledCaseSeries": "sccs"}[source]
    failing = {"unblind": 0, "unblind_for_evidence_synthesis": 0, "ease_diagnostic": "FAIL"}
    copies = [tmp_path / folder.name for folder in folders[:2]]
    for copy, folder in zip(copies, folders, strict=False):
        shutil.copytree(folder, copy)
        path = copy / f"{source}Module" / f"{prefix}_diagnostics_summary.csv"
        checks = pd.read_csv(path).assign(unblind=1, ease_diagnostic="PASS")
        checks.loc[0, [*failing]] = [*failing.values()]
        checks.to_csv(path, index=False)
    spec, out = tmp_path / "synthesis.json", tmp_path / "out"
    module = {"module": "EvidenceSynthesisModule", "settings": settings(source=source)}
    spec.write_text(json.dumps({"moduleSpecifications": [module]}))
    named = [word for folder in copies for word in ("--results", str(folder))]
    assert run(["strategus", str(spec), *named, "--output", str(out), "--quiet"]) == 0
    name = {"cm": "expected absolute systematic error", "sccs": "EASE"}[prefix]
    reason = f"no database has an estimate that may be combined ({name})"
    assert reason in " ".join(capsys.readouterr().err.split())
    notes = pd.read_csv(out / "release/EvidenceSynthesisModule/note.csv")["note"]
    assert notes.iloc[0] == reason
    assert notes.iloc[1:].isna().all()
    views = {v.name: v.data() for v in results_views(read_sources([out]), RULES)}
    status = views[f"synthesis-{prefix}"]["status"]
    assert (status == reason).sum() == 1
    assert (status == "shown").sum() == len(CONTROLS)
