"""Attacks on every way out of a study: all released numbers together determine no hidden count.

The solver of `release_attacker` takes the numbers of a table as equations; here are the functions
of counts that are not linear: units of shares, coefficients, ratios and curves.
"""

import hashlib
import itertools
import json
import math
import re
import zipfile

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import TinyOmop
from tests.studies.release_attacker import (
    ARMS,
    LEAST,
    RULES,
    cell_range,
    explained,
    flat,
    number_tokens,
    numbers_of,
    page_tokens,
    study_unknowns,
    terminal_text,
)
from tests.studies.test_disclosure_attacks import OUTCOMES, grid_of, people

from steropes.designs.doubly_robust.nuisance_models import folds_of_people
from steropes.errors import DataError
from steropes.studies import StudySettings, comparative_study
from steropes.studies.archives.archive_synthesis import combine_archives
from steropes.studies.disclosure import DisclosureRules, share_unit
from steropes.studies.disclosure.counts_in_text import released_text
from steropes.studies.disclosure.disclosive_digit_rounding import STEPS
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.disclosure.small_cell_suppression import SHARE_UNITS
from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.report.study_report import study_page
from steropes.studies.single_studies.study_terminal import print_study

slow = pytest.mark.slow


# -- one question ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    made = {}

    def database(*of):
        if of not in made:
            made[of] = people(TinyOmop(tmp_path_factory.mktemp("omop")), *of)
        return made[of]

    return database


CASES = [
    (2, 120, 0.12),
    (3, 160, 0.3),
    *((s, 90 + 7 * s, 0.02 * s) for s in range(4, 12)),
]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((of, rules), marks=[slow] * (of not in CASES[:2]), id=f"{of[0]}-{rules}")
        for of, rules in itertools.product(CASES, RULES)
    ],
)
def study(request, databases, tmp_path_factory):
    """A study, its JSON file, and the folder of its release."""
    of, rules = request.param
    settings = StudySettings(1, 2, 3, unblind=True, tie_orders=2, min_people=3, caliper=1.0)
    made = comparative_study(databases(*of), settings,
                             disclosure=rules)  # fmt: skip
    folder = tmp_path_factory.mktemp("out")
    made.write(folder)
    return made, json.loads((folder / "release" / "study.json").read_text()), folder / "release"


def test_all_numbers_of_a_study_together_pin_no_hidden_count(study):
    _, numbers, _ = study
    x, hidden = study_unknowns(numbers)
    for name in hidden:
        low, high = x.range_of(name)
        assert low < high, name


def test_no_small_count_is_in_the_json_and_csv_files(study):
    _, numbers, release = study
    least = numbers["disclosure"]["min_cell"]
    names = re.compile(r"people|events|dropped|pairs|target$|comparator$|at_risk")
    rounds = numbers["disclosure"]["rules"] == "opensafely"

    def refuse(name, value):
        if isinstance(value, int | float) and value == int(value) and not isinstance(value, bool):
            assert not 0 < value < least, name
            assert not rounds or value % 6 == 3 or value == 0 or "dropped" in name, name

    for lines in (numbers["attrition"], numbers["rates"], numbers["hazard_ratios"]):
        for line in lines:
            for name, value in line.items():
                if names.search(name):
                    refuse(name, value)
    for curve in numbers["survival"].values():
        for n in curve["at_risk"]["people"]:
            refuse("at_risk", n)
    refuse("pairs", numbers["matching"]["pairs"])
    for name in ("attrition", "rates", "hazard_ratios"):
        table = pd.read_csv(release / "tables" / f"{name}.csv", dtype=object)
        for column in [c for c in table if names.search(c)]:
            for value in table[column].dropna():
                if re.fullmatch(r"\d+(\.0)?", value):
                    refuse(column, float(value))


def sizes(numbers, arm, when):
    """The sizes of an arm that its released cell leaves."""
    rules = numbers["disclosure"]
    line = next(r for r in numbers["rates"] if (r["analysis"], r["arm"]) == (when, arm))
    low, high = cell_range(line["people"], rules["min_cell"], rules["rules"] == "opensafely")
    if isinstance(line["people"], str):
        low = high - rules["min_cell"] + 2  # a bound is that near to a released count
    return range(max(low, 1), high + 1)


def test_shares_do_not_tell_of_how_many_people_they_are(study):
    """Units are the same for all sizes that a bound leaves, so that no multiple of one is 5 / n."""
    _, numbers, _ = study
    least = numbers["disclosure"]["min_cell"]
    for line, (when, of) in itertools.product(
        numbers["balance"]["covariates"], (("before", "all"), ("after", "matched"))
    ):
        for arm in ARMS:
            cell, around = line[f"{arm}_{when}"], sizes(numbers, arm, of)
            if cell is None or cell in (0.0, 1.0):
                continue
            if isinstance(cell, str):
                assert float(cell[1:]) in [*SHARE_UNITS, *(round(1 - u, 3) for u in SHARE_UNITS)]
            elif numbers["disclosure"]["rules"] == "ohdsi":
                units = [u for u in SHARE_UNITS if math.isclose(cell / u, round(cell / u))]
                assert {share_unit(n, least) for n in around} & {*units}


def test_coefficients_and_scores_do_not_tell_sizes(study):
    """Without other coefficients the intercept is the log ratio of the arms' sizes."""
    _, numbers, _ = study
    fit = numbers["propensity"]
    for line in fit["coefficients"]:
        assert line["coef"] is None or any(
            math.isclose(line["coef"] / s, round(line["coef"] / s), abs_tol=1e-6) for s in STEPS
        )
    if fit["nonzero"] == 0:
        target, comparator = (sizes(numbers, arm, "all") for arm in ARMS)
        coef = fit["coefficients"][0]["coef"]
        left = {
            n
            for n, m in itertools.product(target, comparator)
            if abs(math.log(n / m) - coef) <= 0.5 * max(s for s in STEPS if s <= 0.2)
        }
        assert left >= {*target}  # fmt: skip
    # a score of all people is about log 2 for each of them, and one of a fold counts its people
    assert max(line["mean"] for line in fit["cross_validation"]) == 0.0
    assert not any("fold" in name for line in fit["cross_validation"] for name in line)


def test_curves_and_numbers_at_risk_count_no_few_who_were_censored(study):
    """People less those at risk less events are a difference of three released counts."""
    made, numbers, _ = study
    least = numbers["disclosure"]["min_cell"]
    for arm, curve in numbers["survival"].items():
        exact = made.curves()[arm]
        n = made.pairs
        marks = curve["at_risk"]
        for t, there in zip(marks["time"], marks["people"], strict=True):
            actual = int((made.matched["time"][made.matched["treated"] == (arm == "target")] >= t)
                         .sum())  # fmt: skip
            if isinstance(there, int) and numbers["disclosure"]["rules"] == "ohdsi":
                assert (n - there) % least == 0
                gone = n - actual
                possible = [g for g in range(n + 1) if least * round(g / least) == n - there]
                assert gone in possible or there < 2 * least
        assert len(curve["time"]) <= exact.events.sum() / 5


def test_pages_pictures_and_the_terminal_show_numbers_of_the_json_file_alone(study, databases):
    made, numbers, release = study
    known = numbers_of(numbers)
    other = comparative_study(
        databases(1, 90, 0.04), made.settings, disclosure=numbers["disclosure"]["rules"]
    )
    constants = {*page_tokens(study_page(other.release))}
    constants |= {*number_tokens(terminal_text(print_study, other, []))}
    shown = {*page_tokens((release / "report.html").read_text())}
    shown |= {*number_tokens(terminal_text(print_study, made, []))}
    for picture in (release / "figures").glob("*.svg"):
        shown |= {*page_tokens(picture.read_text())}
    axis = {str(k) for k in range(0, 101, 5)} | {f"{k / 100:.2f}" for k in range(0, 101, 5)}
    axis |= {f"{k / 10:g}" for k in range(0, 101)} | {str(k) for k in range(0, 3000, 10)}
    axis |= {"2017"}  # VanderWeele and Ding, cited beside an E-value
    unexplained = {t for t in shown - constants - axis if not explained(t, known)}
    assert not unexplained


def test_a_picture_has_no_more_steps_than_the_file(study):
    _, numbers, release = study
    path = release / "figures" / "survival.svg"
    if not path.exists():
        assert not any(c["time"] for c in numbers["survival"].values())
        return
    for arm, curve in numbers["survival"].items():
        of = re.findall(rf'<polyline points="([^"]+)" class="curve {arm}"', path.read_text())
        assert of, arm
        for d in of:
            heights = [float(y) for _, y in re.findall(r"(-?[\d.]+)[ ,](-?[\d.]+)", d)]
            assert len({*heights}) <= len(curve["time"]) + 1


# -- grids -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=RULES)
def grid(request, tmp_path_factory):
    """The rules, tables and archive of a grid with outcomes that few and that many have."""
    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    for concept in OUTCOMES[1:]:
        omop.concept(concept, f"condition {concept}")
    rng = np.random.default_rng(11)
    omop.concept(70, "thing")
    for i in range(320):
        last = int(rng.integers(60, 900))
        person = omop.person(
            **{ARMS[i % 2]: 0}, observed=(-1000, last), born=int(rng.integers(1930, 1990)),
            sex=int(rng.choice([8507, 8532])),
        )  # fmt: skip
        for outcome, share in zip(OUTCOMES, (0.3, 0.08, 0.04, 0.02), strict=True):
            if rng.random() < share:
                omop.condition(person, outcome, int(rng.integers(-40, last)))
        if rng.random() < 0.2 + 0.2 * (i % 2):
            omop.condition(person, 70, -5)
    folder = tmp_path_factory.mktemp("grid")
    run_grid(omop.write(), grid_of(), folder, disclosure=request.param)
    path = folder / "release" / "results.zip"
    with zipfile.ZipFile(path) as archive:
        tables = {n[:-4]: pd.read_csv(archive.open(n)) for n in archive.namelist()}
    return request.param, tables, path


def test_no_table_of_a_grid_has_a_small_count(grid):
    rules, tables, _ = grid
    seen = 0
    for table in tables.values():
        counts = [c for c in table if re.search("_subjects|_outcomes|^subjects|_at_risk", str(c))]
        for name in counts:
            values = table[name].dropna()
            seen += len(values)
            assert not values.between(1, LEAST[rules] - 1).any(), name
            if rules == "opensafely":
                assert ((values % 6 == 3) | (values == 0) | (values == -8)).all(), name
    assert seen


def test_shares_of_a_grid_have_units_that_fit_many_sizes(grid):
    rules, tables, _ = grid
    if rules == "opensafely":
        shares = tables["cm_diagnostics_summary"]["equipoise"].dropna().tolist()
    else:
        balance = tables["cm_shared_covariate_balance"]
        shares = balance[[f"{a}_mean_{w}" for a in ARMS for w in ("before", "after")]]
        shares = [x for x in shares.to_numpy().ravel() if x == x]
    shares += tables["note"][["tied", "target_lost", "comparator_lost"]].stack().dropna().tolist()
    shares += tables["cm_diagnostics_summary"]["attrition_fraction"].dropna().tolist()
    assert len(shares) > 10
    for share in map(abs, shares):
        assert any(math.isclose(share / u, round(share / u), abs_tol=1e-9)
                   for u in SHARE_UNITS if u >= 0.01), share  # fmt: skip


def test_coefficients_of_a_grid_are_in_steps(grid):
    coefficients = grid[1]["cm_propensity_model"]["coefficient"].dropna()
    assert len(coefficients)
    for x in coefficients:
        assert any(math.isclose(x / s, round(x / s), abs_tol=1e-6) for s in STEPS)


def test_no_difference_of_two_differences_of_an_outcome_is_small(grid):
    rules, tables, _ = grid
    if rules == "opensafely":
        return
    key = ["exposure_id", "outcome_id", "analysis_id"]
    attrition = tables["cm_attrition"]
    drops = -attrition.groupby(key)["subjects"].diff()
    drops[(attrition["subjects"] < 0) | (attrition["subjects"].shift() < 0)] = np.nan
    for _, of in attrition.assign(drop=drops).groupby([*key[:2], "description"]):
        known = sorted({int(n) for n in of["drop"].dropna() if n > 0})
        assert min(np.diff(known), default=LEAST[rules]) >= LEAST[rules]


def test_estimates_of_opensafely_grids_have_three_digits_and_no_profile(grid):
    rules, tables, _ = grid
    if rules != "opensafely":
        return
    assert tables["cm_likelihood_profile"].empty
    results = tables["cm_result"]
    for name in ("rr", "ci_95_lb", "ci_95_ub"):
        for x in results[name].dropna():
            assert x == float(f"{x:.3g}")
    days = results[[f"{a}_days" for a in ARMS]].stack().dropna()
    assert len(days)
    assert (days == days.map(lambda x: float(f"{x:.3g}"))).all()
    survival = tables["cm_kaplan_meier_dist"][[f"{a}_survival" for a in ARMS]].stack().dropna()
    assert len(survival)
    assert (survival == survival.round(3)).all()
    hidden = (results[[f"{a}_outcomes" for a in ARMS]] < 0).any(axis=1)
    assert hidden.any()
    assert (~hidden).any()
    assert not results.loc[hidden, ["rr", "ci_95_lb", "ci_95_ub", "p", "se_log_rr"]].count().any()


def test_no_profile_is_released_whose_slopes_count_hidden_outcomes(grid):
    _, tables, _ = grid
    key = ["target_comparator_id", "outcome_id", "analysis_id"]
    hidden = tables["cm_result"][
        (tables["cm_result"][[f"{a}_outcomes" for a in ARMS]] < 0).any(axis=1)
    ]
    assert len(hidden)
    assert tables["cm_likelihood_profile"].merge(hidden[key], on=key).empty


def test_combined_results_say_by_which_rules_each_archive_was_released(grid, tmp_path):
    rules, _, path = grid
    found = combine_archives([path], unblind=True)
    assert len(found)
    assert {*found["disclosure"]} == {f"database: {rules}, smallest count {LEAST[rules]}"}
    copied = tmp_path / "results.zip"
    copied.write_bytes(path.read_bytes())
    alone = combine_archives([copied], unblind=True)
    assert {*alone["disclosure"]} == {"database: not known"}
    # The exact results beside the archive have no part in it, so that it tells no more than this.
    pd.testing.assert_frame_equal(alone.iloc[:, :-1], found.iloc[:, :-1])


def test_results_that_are_withheld_take_no_part_in_combined_ones(grid):
    _, tables, path = grid
    key = ["target_comparator_id", "outcome_id", "analysis_id"]
    counts = tables["cm_result"][[f"{a}_outcomes" for a in ARMS]]
    hidden = tables["cm_result"].loc[(counts.isin([-5, -8])).any(axis=1), key]
    found = combine_archives([path], unblind=True).merge(hidden, on=key)
    assert found[["rr", "ci_95_lb", "ci_95_ub", "se_log_rr"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("rules", "least", "shown"),
    [("ohdsi", 5, "<5"), ("ohdsi", 10, "<10"), ("opensafely", 8, "<8"), ("none", 0, "4")],
)
def test_reasons_for_missing_estimates_have_no_small_count(rules, least, shown):
    text = "covers all days that count of 1,234 cases and none of the other 4, and only days"
    found = released_text(text, DisclosureRules(rules, least))
    assert f"none of the other {shown}, and" in found
    assert ("1,234" in found) == (rules == "none")
    assert "<10 outcomes" in released_text("5 knots for <5 outcomes", DisclosureRules("ohdsi", 10))
    assert released_text("fewer than 4 people", DisclosureRules("ohdsi", 10)) == (
        "fewer than 10 people"
    )


@pytest.mark.parametrize("clusters", [None, np.arange(387)])
def test_the_number_of_people_is_not_told_by_too_many_folds(clusters):
    with pytest.raises(DataError) as error:
        folds_of_people(np.zeros(387, int), clusters, 388, 1, 0)
    assert "there are 387 " in str(error.value)
    assert "387" not in released_text(str(error.value), DisclosureRules("opensafely"))


# -- several releases ------------------------------------------------------------------------------


def test_a_manifest_tells_that_another_release_was_in_the_folder_before(tmp_path):
    """Two releases with nearby settings can be subtracted."""
    rules, manifest = DisclosureRules("ohdsi", 5), tmp_path / "release" / "manifest.json"

    def release(**texts):
        write_release(tmp_path, {f"{name}.csv": text for name, text in texts.items()}, rules)
        return json.loads(manifest.read_text())["earlier"]

    assert release(a="20") == []
    first = hashlib.sha256(manifest.read_bytes()).hexdigest()
    assert release(a="20") == []  # the same again says nothing new
    assert release(a="23") == [first]
    assert release(a="23") == [first]
    assert len(release(a="24")) == 2


def test_all_released_values_are_plain(study):
    """No value of a file is an object whose text could hold more than it says."""
    for value in flat(study[1]):
        assert value is None or isinstance(value, str | int | float)


def test_opensafely_computes_rates_from_rounded_counts(study):
    _, numbers, _ = study
    if numbers["disclosure"]["rules"] != "opensafely":
        return
    for line in numbers["rates"]:
        if isinstance(line["events"], str):
            assert {line[c] for c in ("person_years", "rate", "rate_lower", "rate_upper")} == {None}
        else:
            rate = 1000 * line["events"] / line["person_years"]
            assert line["rate"] == pytest.approx(rate, rel=0.01)
