"""Attacks on released files: nothing that is suppressed follows from what is released.

The attacker reads the files of ``release`` alone. What was hidden is looked up in exact tables only
to judge the attack.
"""

import hashlib
import itertools
import json
import math
import re
import zipfile

import duckdb
import numpy as np
import pandas as pd
import pytest

from steropes.designs import OutcomeModel
from steropes.designs.propensity.propensity_score_fit import PropensityRules
from steropes.designs.propensity.score_matching import Match
from steropes.errors import DataError
from steropes.studies import (
    GridSpec,
    StudySettings,
    case_series,
    case_series_settings,
    comparative_study,
)
from steropes.studies.cohorts import ConceptSet, TimeAtRisk
from steropes.studies.comparative import Outcome, Question, StudyAnalysis
from steropes.studies.covariates import FeatureRules
from steropes.studies.disclosure import DisclosureRules, site_rules
from steropes.studies.disclosure.disclosive_digit_rounding import STEPS
from steropes.studies.disclosure.release_folder import MANIFEST
from steropes.studies.disclosure.released_curves import merged_histogram
from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.specifications.grid_specification import CohortSources

LEAST, ARMS = 5, ("target", "comparator")
Z = 1.959963984540054
KEY = ["target_comparator_id", "outcome_id", "analysis_id"]


def people(omop, seed, n, share, outcomes=(3,)):
    """Two drugs, outcomes of which so many people have one, and two things that some have."""
    rng = np.random.default_rng(seed)
    omop.concept(70, "thing")
    omop.concept(71, "rare thing")
    for i in range(n):
        last = int(rng.integers(60, 900))
        born, sex = int(rng.integers(1930, 1990)), int(rng.choice([8507, 8532]))
        person = omop.person(**{ARMS[i % 2]: 0}, observed=(-1000, last), born=born, sex=sex)
        for outcome in outcomes:
            if rng.random() < share * (1 + 0.5 * (i % 2)):
                omop.condition(person, outcome, int(rng.integers(-40, last)))
        for concept, part in ((70, 0.4), (71, 0.04)):
            if rng.random() < part:
                omop.condition(person, concept, -5)
    return omop.write()


# -- one question ----------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[(1, 90, 0.04), (2, 120, 0.12), (3, 160, 0.3)])
def study(request, tmp_path_factory):
    from tests.studies.conftest import TinyOmop

    path = people(TinyOmop(tmp_path_factory.mktemp("omop")), *request.param)
    settings = StudySettings(1, 2, 3, unblind=True, tie_orders=2, min_people=3, caliper=1.0)
    made = comparative_study(path, settings)
    folder = tmp_path_factory.mktemp("out")
    made.write(folder)
    return made, json.loads((folder / "release" / "study.json").read_text())


def range_of(cell):
    """Counts that a released bound leaves."""
    limit = int(cell[1:].replace(",", ""))
    return range(max(1, limit - LEAST + 1), limit)


def candidates(line, other, hidden):
    """Hidden event counts for which the released limits can be those of a hazard ratio.

    The attacker knows how numbers are rounded: logarithms are multiples of a step, the largest that
    fits them all. The variance of a log hazard ratio is about 1 / e1 + 1 / e0.
    """
    logs = [math.log(line[c]) for c in ("hr", "lower", "upper")]
    step = max(s for s in STEPS if all(abs(x - s * round(x / s)) < 0.006 for x in logs))
    width = logs[2] - logs[1]
    low, high = (max(width + sign * step, 0.0) / (2 * Z) for sign in (-1, 1))
    return [h for h in hidden if low**2 <= 1 / h + 1 / other <= high**2]


def test_no_difference_of_released_counts_of_a_study_is_small(study):
    _, numbers = study
    for arm in ARMS:
        left = [line[arm] for line in numbers["attrition"]]
        left += [r["people"] for r in numbers["rates"] if r["arm"] == arm]
        events = [r["events"] for r in numbers["rates"] if r["arm"] == arm]
        for counts in (left, events):
            known = sorted({n for n in counts if isinstance(n, int)})
            assert not any(0 < n < LEAST for n in known)
            assert not any(b - a < LEAST for a, b in itertools.pairwise(known) if a)


def test_no_estimate_stands_beside_few_events(study):
    made, numbers = study
    for line in numbers["hazard_ratios"]:
        among = "all" if line["analysis"] == "crude" else "matched"
        exact = made.rates.loc[among, "events"]
        if any(0 < n < LEAST for n in exact):
            assert {line[c] for c in ("hr", "lower", "upper", "p", "log_hr", "se")} == {None}
            drawn = {arm for arm, curve in numbers["survival"].items() if curve["time"]}
            assert drawn <= {a for a in ARMS if exact[a] >= LEAST}
    assert all(
        line["hr"] is None
        for line in numbers["other_adjustments"]
        if any(0 < n < LEAST for n in made.rates.loc["all", "events"])
    )


def test_hidden_events_do_not_follow_from_limits(study):
    _, numbers = study
    rates = {(r["analysis"], r["arm"]): r["events"] for r in numbers["rates"]}
    for line in numbers["hazard_ratios"][:2]:
        among = "all" if line["analysis"] == "crude" else "matched"
        cells = [rates[among, arm] for arm in ARMS]
        if line["hr"] is None or all(isinstance(c, int) for c in cells):
            continue
        hidden = next(c for c in cells if isinstance(c, str))
        other = next((c for c in cells if isinstance(c, int)), None)
        if other is None:
            continue
        left = range_of(hidden)
        assert candidates(line, other, left) == [*left]


def test_rational_numbers_and_quantiles_have_no_digits_to_match(study):
    _, numbers = study
    for line in [*numbers["hazard_ratios"], *numbers["other_adjustments"]]:
        for name in ("hr", "lower", "upper"):
            assert line[name] is None or line[name] == float(f"{line[name]:.3g}")
    ties = numbers["matching"]["ties"]
    for name in ("hr_smallest", "hr_median", "hr_largest"):
        assert ties[name] is None or len(f"{ties[name]:.10g}".lstrip("0.").replace(".", "")) <= 5
    assert numbers["propensity"]["auc"] == round(numbers["propensity"]["auc"], 3)
    for line in numbers["follow_up"]:
        assert all(line[q] == int(line[q]) for q in ("p10", "p25", "p50", "p75", "p90"))


def test_curves_step_at_times_that_no_person_sets_and_hold_enough_events(study):
    made, numbers = study
    for arm, curve in numbers["survival"].items():
        exact = made.curves()[arm]
        if not curve["time"]:
            assert exact.events.sum() == 0
            continue
        assert all(t % 7 == 0 or t % 30 == 0 or t % 90 == 0 for t in curve["time"])
        until = [exact.events[exact.times <= t].sum() for t in curve["time"]]
        assert min(np.diff([0, *until])) >= LEAST
        assert exact.events.sum() - until[-1] in (0, *range(LEAST, 10_000))


# -- grids -----------------------------------------------------------------------------------------


OUTCOMES = (3, 5, 6, 7)


def grid_of():
    """Crude, matched and within sets, for four outcomes."""
    features = FeatureRules(analyses=(1, 3))
    common = {"at_risk": TimeAtRisk(end=600, end_anchor="cohort start"), "features": features}
    scored = {**common, "propensity": PropensityRules(variance=0.1)}
    within = OutcomeModel(stratified=True)
    return GridSpec(
        CohortSources(
            drugs={1: ConceptSet((1,)), 2: ConceptSet((2,))},
            conditions={c: ConceptSet((c,)) for c in OUTCOMES},
        ),
        (Question(1, 2, tuple(Outcome(c) for c in OUTCOMES)),),
        (
            StudyAnalysis(1, "crude", propensity=None, **{**common, "features": None}),
            StudyAnalysis(2, "matched", match=Match(), **scored),
            StudyAnalysis(3, "within sets", match=Match(), outcome_model=within, **scored),
        ),
    )


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    from tests.studies.conftest import TinyOmop

    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    for concept in OUTCOMES[1:]:
        omop.concept(concept, f"condition {concept}")
    path = people(omop, 5, 300, 0.04, OUTCOMES)
    folder = tmp_path_factory.mktemp("grid")
    run_grid(path, grid_of(), folder)
    with zipfile.ZipFile(folder / "release" / "results.zip") as archive:
        told = {n[:-4]: pd.read_csv(archive.open(n)) for n in archive.namelist()}
    with duckdb.connect(str(folder / "results.duckdb"), read_only=True) as db:
        exact = {n: db.execute(f"SELECT * FROM {n}").df() for n in ("cm_result", "cm_attrition")}
    return told, exact, folder


def test_no_two_released_counts_of_a_cohort_are_near_each_other(grid):
    told, exact, _ = grid
    hidden = (told["cm_attrition"]["subjects"] < 0).sum()
    assert hidden > 0
    for exposure, of in told["cm_attrition"].groupby("exposure_id"):
        arm = "target" if exposure == 1 else "comparator"
        counts = {*of["subjects"], *told["cm_result"][f"{arm}_subjects"]}
        known = sorted(n for n in counts if n > 0)
        assert min(np.diff(known), default=LEAST) >= LEAST
        assert known[0] >= LEAST
    for outcome, of in told["cm_result"].groupby("outcome_id"):
        for arm in ARMS:
            known = sorted({n for n in of[f"{arm}_outcomes"] if n > 0})
            assert min(np.diff(known), default=LEAST) >= LEAST, outcome
            both = of[(of[f"{arm}_outcomes"] >= 0) & (of[f"{arm}_subjects"] >= 0)]
            without = sorted({*(both[f"{arm}_subjects"] - both[f"{arm}_outcomes"])})
            assert min(np.diff(without), default=LEAST) >= LEAST, outcome
    bounded = told["cm_attrition"].merge(
        exact["cm_attrition"], on=[*KEY, "exposure_id", "sequence_number"], suffixes=("", "_exact")
    )
    bounded = bounded[bounded["subjects"] < 0]
    assert (bounded["subjects_exact"] < -bounded["subjects"]).all()


def test_no_number_of_a_result_with_few_outcomes_is_released(grid):
    told, exact, _ = grid
    few = (
        exact["cm_result"][
            [f"{arm}_outcomes" for arm in ARMS] + [f"{arm}_informative" for arm in ARMS]
        ]
        .apply(lambda column: column.between(1, LEAST - 1))
        .any(axis=1)
    )
    keys = exact["cm_result"].loc[few, KEY]
    assert 0 < len(keys) < len(exact["cm_result"])
    results = told["cm_result"].merge(keys, on=KEY)
    names = ["rr", "ci_95_lb", "ci_95_ub", "p", "one_sided_p", "log_rr", "se_log_rr", "llr"]
    assert results[[*names, *(f"calibrated_{n}" for n in names[:-1])]].isna().all(axis=None)
    for table in ("cm_likelihood_profile", "cm_kaplan_meier_dist", "absolute_effect"):
        assert told[table].merge(keys, on=KEY).empty, table
    assert told["cm_diagnostics_summary"].merge(keys, on=KEY)["mdrr"].isna().all()
    notes = told["note"].merge(keys, on=KEY)
    assert (
        notes[["e_value", "e_value_limit", "limit_ratio", "proportional_p"]].isna().all(axis=None)
    )


def test_slopes_of_profiles_count_no_hidden_outcomes(grid):
    told, _, _ = grid
    results = told["cm_result"].set_index(KEY)
    assert len(told["cm_likelihood_profile"])
    for key, of in told["cm_likelihood_profile"].groupby(KEY):
        line = results.loc[key]
        assert (line[[f"{arm}_outcomes" for arm in ARMS]] >= 0).all()
        if (line[[f"{arm}_subjects" for arm in ARMS]] < 0).any():
            assert of["gradient"].isna().all()


def test_days_are_not_told_of_people_or_outcomes_that_are_hidden(grid):
    told = grid[0]["cm_result"]
    for arm in ARMS:
        hidden = (told[f"{arm}_subjects"] < 0) | (told[f"{arm}_outcomes"] < 0)
        assert hidden.any()
        assert told.loc[hidden, f"{arm}_days"].isna().all()


def test_no_extreme_no_date_and_no_fraction_of_a_day_is_released(grid):
    told = grid[0]["cm_follow_up_dist"]
    extremes = [c for c in told if re.search("min_|max_", c)]
    assert len(extremes) == 8
    assert told[extremes].isna().all(axis=None)
    days = told[[c for c in told if c.endswith("_days")]].to_numpy().ravel()
    days = days[~np.isnan(days)]
    assert len(days)
    assert (days == np.round(days)).all()
    density = grid[0]["cm_preference_score_dist"]["target_density"].dropna()
    assert len(density)
    assert (density == density.round(3)).all()


def test_bars_of_many_people_stay_where_they_are_and_take_in_few_neighbours():
    people = np.array([0, 1, 0, 0, 500, 0, 2, 2, 2, 40, 0, 1])
    found = merged_histogram(people, people / 2, 5)
    assert found.tolist() == [0, 0, 0, 0, 250.5, *[0.75] * 4, 20.5, 0, 0]
    # Without a bar of many people, nobody is alone in any bar.
    assert merged_histogram(np.array([0, 3, 0, 2]), np.ones(4), 5).tolist() == [1, 1, 1, 1]


def test_the_manifest_lists_every_file_with_its_checksum_and_the_rules(grid):
    folder = grid[2] / "release"
    manifest = json.loads((folder / MANIFEST).read_text())
    files = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    assert manifest["disclosure"]["rules"] == "ohdsi"
    assert manifest["files"].keys() == files.keys() - {MANIFEST}
    for name, digest in manifest["files"].items():
        assert hashlib.sha256(files[name].read_bytes()).hexdigest() == digest
    assert (grid[2] / "EXACT-DO-NOT-RELEASE.txt").is_file()


# -- case series -----------------------------------------------------------------------------------


@pytest.mark.parametrize("few", [2, 4, 12])
def test_outcomes_of_few_exposed_days_follow_from_nothing_that_a_case_series_releases(omop, few):
    rng = np.random.default_rng(few)
    for k in range(60):
        person = omop.person(observed=(0, 700), born=1950 + k % 20)
        start = int(rng.integers(100, 600))
        omop.drug(person, 1, start, start + 20)
        day = start + int(rng.integers(0, 20)) if k < few else int(rng.integers(0, 700))
        omop.condition(person, 3, day)
    settings = case_series_settings(3, 1, unblind=True)
    study = case_series(omop.write(), settings)
    tables, inside = study.tables(), study.intervals.statistics["events"]
    ids = tables["sccs_covariate"].set_index("covariate_name")["covariate_id"]
    effects = tables["sccs_covariate_result"].set_index("covariate_id")
    for name, n in inside.items():
        if 0 < n < LEAST:
            assert effects.loc[ids[name], ["rr", "ci_95_lb", "ci_95_ub"]].isna().all()
            profiles = tables["sccs_likelihood_profile"]["covariate_id"]
            assert ids[name] not in set(profiles)
            line = study.release.estimates.loc[name, ["rr", "lower", "upper", "p", "log_rr", "se"]]
            assert line.isna().all()
    for table, columns in {
        "sccs_time_to_event": ("outcomes", "observed_subjects"),
        "sccs_age_spanning": ("cover_before_after_subjects",),
        "sccs_calendar_time_spanning": ("cover_before_after_subjects",),
        "sccs_time_trend": ("observed_subjects",),
    }.items():
        counts = tables[table][list(columns)].to_numpy().ravel()
        assert ((counts % LEAST == 0) | (counts == -LEAST)).all(), table
    assert re.fullmatch(r"\d{4}-01-01", tables["sccs_time_period"]["min_date"].iloc[0])


# -- who decides -----------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [0, 1, 4])
def test_a_specification_cannot_lower_the_floor(least):
    with pytest.raises(DataError, match="a specification can only be stricter"):
        site_rules(min_cell=least)
    assert site_rules(min_cell=9) == DisclosureRules("ohdsi", 9)


def test_the_site_s_floor_comes_from_the_environment_or_a_file_and_is_a_floor(
    monkeypatch, tmp_path
):
    path = tmp_path / "rules.toml"
    path.write_text('rules = "ohdsi"\nmin_cell = 11\n')
    for value, wanted in (
        ("ohdsi:10", DisclosureRules("ohdsi", 10)),
        ("opensafely", DisclosureRules("opensafely", 8)),
        (str(path), DisclosureRules("ohdsi", 11)),
    ):
        monkeypatch.setenv("STEROPES_DISCLOSURE", value)
        assert site_rules() == wanted
        for weaker in ("none", "ohdsi", "ohdsi:6"):
            with pytest.raises(DataError, match="less strict than the site's rules"):
                site_rules(weaker)
        assert site_rules("opensafely:20").least == 20
    monkeypatch.setenv("STEROPES_DISCLOSURE", "none")
    with pytest.raises(DataError, match="cannot be 'none'"):
        site_rules()


def test_that_nothing_is_suppressed_is_recorded_in_every_output(omop, tmp_path):
    path = people(omop, 4, 60, 0.2)
    made = comparative_study(path, StudySettings(1, 2, 3, unblind=True), disclosure="none")
    made.write(tmp_path)
    release = tmp_path / "release"
    assert json.loads((release / "study.json").read_text())["disclosure"]["rules"] == "none"
    assert json.loads((release / MANIFEST).read_text())["disclosure"]["rules"] == "none"
    assert "Disclosure control: none" in (release / "report.html").read_text()


def test_opensafely_rounds_counts_to_the_midpoint_of_six(omop):
    rules = DisclosureRules("opensafely", 8)
    counts = [rules.count(n) for n in (0, 8, 12, 13, 18, 100)]
    assert counts == [0, 9, 9, 15, 15, 99]
    assert {str(rules.count(n)) for n in range(1, 8)} == {"<8"}
    path = people(omop, 6, 160, 0.3)
    made = comparative_study(path, StudySettings(1, 2, 3, unblind=True), disclosure="opensafely")
    numbers = made.to_dict()
    told = [line[arm] for line in numbers["attrition"] for arm in ARMS]
    told += [line[c] for line in numbers["rates"] for c in ("people", "events")]
    assert all(n == 0 or n % 6 == 3 for n in told if isinstance(n, int))
    assert any(isinstance(n, int) for n in told)
