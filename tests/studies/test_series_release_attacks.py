"""Attacks on released case series: no count that is suppressed follows from others."""

import math
import re
import zipfile
from collections import Counter
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import TinyOmop
from tests.studies.release_attacker import (
    LEAST,
    RULES,
    explained,
    numbers_of,
    terminal_text,
)
from tests.studies.series_attacks import exact_series, released_series
from tests.studies.series_grid_attacks import (
    attack_series_grid,
    exact_series_grid,
    released_series_grid,
)
from tests.studies.test_released_weeks import exposed_once

from steropes.studies import case_series, case_series_settings
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.complementary_suppression import sum_splits, unnarrowed_counts
from steropes.studies.disclosure.disclosive_digit_rounding import STEPS
from steropes.studies.disclosure.small_cell_suppression import Bound
from steropes.studies.grids.sccs_grid import (
    CaseSeriesGrid,
    SeriesAnalysis,
    SeriesQuestion,
    run_case_series_grid,
)
from steropes.studies.release.series_covariate_counts import released_covariates
from steropes.studies.release.series_table_release import release_series
from steropes.studies.sccs.results.sccs_result_tables import exact_tables
from steropes.studies.series_report.sccs_terminal import print_grid, print_series

DAYS, EXPOSED, BEFORE, PROBE = 701, 21, 30, 30
PROBE_NAME = "end of observation"


def regular_series(omop, inside, before, at_end, n=60, extra_drug=False):
    """Cases whose windows are all as long, so that rate ratios are functions of counts alone."""
    kinds = [inside, before, at_end, n - inside - before - at_end]
    kind = np.repeat(np.arange(4), kinds)
    for k in range(n):
        person = omop.person(observed=(0, DAYS - 1), born=1950 + k % 20)
        omop.drug(person, 1, 300, 300 + EXPOSED - 1)
        if extra_drug:
            omop.drug(person, 9, 90, 140)
        omop.condition(person, 3, (305, 280, DAYS - 10, 100 + k)[kind[k]])
    return omop.write()


def test_the_ratio_of_one_window_does_not_tell_the_outcomes_of_another(tmp_path):
    """Ratios are (e / d) / (e₀ / d₀), so that exact ones give e₀ and, from the total, the rest."""
    released = []
    for before in range(1, 5):
        (folder := tmp_path / str(before)).mkdir()
        path = regular_series(TinyOmop(folder), 12, before, 6)
        made = case_series(path, case_series_settings(3, 1, unblind=True))
        exact = made.model.estimates.loc["exposure", "rr"]
        rest = 60 - 12 - 6 - before
        ratio = (12 / EXPOSED) / (rest / (DAYS - EXPOSED - BEFORE - PROBE))
        assert exact == pytest.approx(ratio, 1e-6)  # which the attacker would solve for the rest
        tables = made.tables()
        assert tables["sccs_result"]["covariate_outcomes"].iloc[0] == 12
        assert tables["sccs_likelihood_profile"].empty
        released.append(tables["sccs_covariate_result"].set_index("covariate_id")["rr"])
    for one in released[1:]:
        pd.testing.assert_series_equal(one, released[0])


def test_limits_before_exposure_follow_the_pre_exposure_window_alone(omop):
    """A third covariate that may not be released leaves them as they are."""
    settings = case_series_settings(3, 1, others=True, unblind=True)
    path = regular_series(omop, 14, 12, 9, extra_drug=True)
    made = case_series(path, settings)
    exact = exact_tables(made, 1, 1, "here")
    counts = released_covariates(exact, made.rules)
    names = exact["sccs_covariate"].set_index("covariate_id")["covariate_name"]
    other = next(k for k in counts if names[k[2]] not in ("exposure", "pre-exposure", PROBE_NAME))
    closed = replace(counts[other].secrecy, closed=True)
    hidden = counts | {other: replace(counts[other], secrecy=closed)}
    limits = [
        release_series(exact, made.rules, made.settings.thresholds, c)["sccs_diagnostics_summary"][
            ["event_exposure_lb", "event_exposure_ub"]
        ]
        for c in (counts, hidden)
    ]
    assert np.isfinite(limits[0]).all(axis=None)
    pd.testing.assert_frame_equal(limits[1], limits[0])


@pytest.mark.parametrize("rules", RULES)
def test_two_analyses_of_a_case_series_grid_do_not_tell_a_window_together(rules, omop, tmp_path):
    """One analysis has the window before exposure, in which few outcomes are, the other has not."""
    path = regular_series(omop, 14, 3, 9)
    results = run_case_series_grid(
        path,
        CaseSeriesGrid(
            (SeriesQuestion(1, 3),),
            (
                SeriesAnalysis(1, "with the window", {}),
                SeriesAnalysis(2, "without it", {"pre_exposure_days": 0}),
            ),
        ),
        tmp_path,
        disclosure=rules,
    )
    with zipfile.ZipFile(tmp_path / "release" / "results.zip") as archive:
        tables = {n[:-4]: pd.read_csv(archive.open(n)) for n in archive.namelist()}
    least = LEAST[rules]
    for table in tables.values():
        for name in [c for c in table if re.search("_subjects$|_events$|outcomes$", str(c))]:
            assert not table[name].dropna().between(1, least - 1).any(), name
    assert tables["sccs_likelihood_profile"].query("analysis_id == 1").empty
    text = terminal_text(print_grid, results, True, tmp_path)
    shown = results.tables["sccs_result"].astype(object)
    known = numbers_of(shown.where(shown.notna(), None).to_dict("records"))
    for token in re.findall(r"\d+\.\d\d", text):
        assert explained(token, known), token


def test_profiles_of_case_series_are_released_where_nothing_is_hidden(omop):
    made = case_series(regular_series(omop, 12, 7, 6), case_series_settings(3, 1, unblind=True))
    profile = made.tables()["sccs_likelihood_profile"]
    result = made.tables()["sccs_result"].iloc[0]
    assert profile["gradient"].max() <= result["covariate_outcomes"]
    assert result["rr"] == pytest.approx((12 / (60 * EXPOSED)) / (35 / (60 * (DAYS - 81))), 1e-6)


@pytest.mark.parametrize("rules", RULES)
def test_a_case_series_shows_nobody_s_month(rules, omop, tmp_path):
    """The first and the last month, and the youngest and the oldest age, are single people's."""
    rng = np.random.default_rng(3)
    for k in range(70):
        first = int(rng.integers(0, 200)) - (400 if k == 0 else 0)
        person = omop.person(
            observed=(first, 800 + (500 if k == 1 else 0)), born=1955 + k % 9 - 30 * (k == 2)
        )
        start = int(rng.integers(300, 600))
        omop.drug(person, 1, start, start + 30)
        omop.condition(person, 3, start + int(rng.integers(0, 30)) if k < 20 else 250 + 7 * k)
    made = case_series(omop.write(), case_series_settings(3, 1, unblind=True), disclosure=rules)
    tables = made.tables()
    for table, name in {
        "sccs_age_spanning": "cover_before_after_subjects",
        "sccs_calendar_time_spanning": "cover_before_after_subjects",
        "sccs_time_trend": "observed_subjects",
    }.items():
        assert len(tables[table]) > 3
        assert (tables[table][name].iloc[[0, -1]] >= LEAST[rules]).all(), table
    made.write(tmp_path)
    files = [p for p in (tmp_path / "release").rglob("*") if p.is_file()]
    assert {p.suffix for p in files} >= {".csv", ".html", ".svg", ".json"}
    known = numbers_of([t.astype(object).where(t.notna(), None).to_dict("records")
                        for t in tables.values()])  # fmt: skip
    text = terminal_text(print_series, made, [])
    counts = re.findall(r"(\d+) (?:cases|people|outcomes|events)", text)
    assert all(explained(c, known) for c in counts)
    page = (tmp_path / "release" / "report.html").read_text()
    for count in re.findall(r"\b(\d+) (?:cases|people|outcomes|events)\b", page):
        assert int(count) == 0 or not 0 < int(count) < LEAST[rules]


def test_opensafely_rounds_all_counts_of_a_case_series(omop):
    made = case_series(
        regular_series(omop, 14, 9, 3), case_series_settings(3, 1, unblind=True),
        disclosure="opensafely",
    )  # fmt: skip
    tables, seen = made.tables(), 0
    for table in tables.values():
        counts = re.compile("_subjects$|_events$|_periods$|^outcomes$|covariate_(outcomes|eras)$")
        for name in [c for c in table if counts.search(str(c))]:
            values = table[name].dropna()
            seen += len(values)
            assert ((values % 6 == 3) | values.isin([0, -8])).all(), name
    assert seen > 20
    assert tables["sccs_likelihood_profile"].empty
    result = tables["sccs_result"].iloc[0]
    assert result["covariate_outcomes"] == 15
    for name in ("rr", "ci_95_lb", "ci_95_ub", "covariate_days", "observed_days"):
        assert result[name] == float(f"{result[name]:.3g}")
    effects = tables["sccs_covariate_result"].set_index("covariate_id")
    assert effects.loc[99, ["rr", "ci_95_lb", "ci_95_ub"]].isna().all()  # three outcomes
    windows = [f"{x.rr:.2f}" for x in made.estimates.itertuples() if x.Index != "exposure"]
    text = terminal_text(print_series, made, [])
    assert windows[1] not in text


def test_months_do_not_tell_the_outcomes_of_a_month_that_is_hidden(omop):
    """The total less the outcomes of all other months."""
    rng = np.random.default_rng(8)
    for k in range(200):
        person = omop.person(observed=(-14, 165), born=1950 + k % 20)
        omop.drug(person, 1, 60, 80)
        omop.condition(person, 3, 20 if k < 3 else int(rng.integers(31, 165)))
    made = case_series(omop.write(), case_series_settings(3, 1, unblind=True))
    tables, exact = made.tables(), made.monthly[["year", "month", "expected"]]
    trend = tables["sccs_time_trend"].merge(
        exact, left_on=["calendar_year", "calendar_month"], right_on=["year", "month"]
    )
    low = high = 0
    for line in trend.to_dict("records"):
        if line["ratio"] != line["ratio"]:
            continue
        if line["ratio"] == 0:
            continue
        # the attacker knows what is expected of each month, and that ratios are rounded in steps
        fits = [
            n for n in range(5, 200)
            if abs(math.log(n / line["expected"] / line["ratio"]))
            <= 0.5 * next((s for s in STEPS if s >= 5 / n), 1.0) + 0.05
        ]  # fmt: skip
        low, high = low + min(fits), high + max(fits)
    total = int(tables["sccs_result"]["outcome_events"].iloc[0])
    assert total - high < 1
    assert total - low > 4


@pytest.mark.parametrize(
    ("inside", "at_end", "n"),
    [(12, 6, 70), (0, 9, 80),
     *(pytest.param(*of, marks=pytest.mark.slow)
       for of in [(26, 11, 70), (26, 6, 90), (15, 11, 70)])],
)  # fmt: skip
def test_tables_are_the_same_for_all_numbers_of_hidden_outcomes(inside, at_end, n, tmp_path):
    """Steps, estimates, limits, p values, verdicts and months do not tell a window's outcomes."""
    found = []
    for before in range(1, 5):
        (folder := tmp_path / str(before)).mkdir()
        path = regular_series(TinyOmop(folder), inside, before, at_end, n)
        made = case_series(path, case_series_settings(3, 1, unblind=True))
        exact, limits = exact_tables(made, 1, 1, "here"), made.settings.thresholds
        released = [release_series(exact, DisclosureRules(r, LEAST[r]), limits) for r in RULES]
        found.append([{k: t.to_csv() for k, t in of.items()} for of in released])
    assert "rr" in found[0][0]["sccs_covariate_result"]
    assert all(other == found[0] for other in found[1:])


def released_pair(rng, folder):
    """Release two series that differ in the outcomes before exposure alone, by both rule sets."""
    n, inside, at_end = (
        int(rng.integers(55, 110)),
        int(rng.integers(6, 30)),
        int(rng.integers(5, 12)),
    )
    found = []
    for before in rng.choice(np.arange(1, 5), 2, replace=False):
        (own := folder / str(before)).mkdir(parents=True)
        path = regular_series(TinyOmop(own), inside, int(before), at_end, n)
        made = case_series(path, case_series_settings(3, 1))
        exact, limits = exact_tables(made, 1, 1, "here"), made.settings.thresholds
        released = [release_series(exact, DisclosureRules(r, LEAST[r]), limits) for r in RULES]
        found.append([{k: t.to_csv() for k, t in of.items()} for of in released])
    return found


@pytest.mark.slow
def test_80_random_pairs_of_series_that_differ_in_hidden_outcomes_have_equal_tables(tmp_path):
    rng = np.random.default_rng(7)
    for k in range(80):
        first, second = released_pair(rng, tmp_path / str(k))
        assert first == second


BOTH = [DisclosureRules(), DisclosureRules("opensafely", 8)]


def attacked_series_grids(seeds):
    """Count what the attacker finds in random grids of case series, by rule set."""
    found = [Counter(), Counter()]
    for seed in seeds:
        exact = exact_series_grid(np.random.default_rng(seed))
        for of, rules in zip(found, BOTH, strict=True):
            of += attack_series_grid(released_series_grid(exact, rules, "x"), exact, rules)
    return found


@pytest.mark.slow
def test_no_count_of_a_grid_of_case_series_has_a_single_possible_value():
    """Four outcomes are a window's less those of a part, and seven the least of a rounded sum."""
    for found in attacked_series_grids([2, (90, 17)]):
        assert found["suppressed"] > 5
        assert found["exact"] == 0


@pytest.mark.slow
def test_no_count_of_many_grids_of_case_series_has_a_single_possible_value():
    for found in attacked_series_grids(range(200)):
        assert found["suppressed"] > 1000
        assert found["exact"] == 0
        assert found["two"] <= found["suppressed"] / 50


@pytest.mark.parametrize("again", [0, 3, 12])
def test_few_further_outcomes_do_not_follow_from_the_numbers_of_cases_and_outcomes(omop, again):
    """Everybody has a first outcome, so that outcomes less cases are further ones."""
    path = exposed_once(omop, 12)
    with duckdb.connect(str(path)) as db:
        db.execute(
            "INSERT INTO condition_occurrence SELECT person_id, 3, DATE '2012-05-01' FROM person "
            f"ORDER BY person_id LIMIT {again}"
        )
    study = case_series(path, case_series_settings(3, 1, unblind=True))
    line = study.tables()["sccs_result"].iloc[0]
    assert line["outcome_subjects"] == line["covariate_subjects"] == 60
    events = study.release.attrition["events"]
    if again == 3:  # The limit holds for one to four further outcomes.
        assert line["outcome_events"] == -65
        assert {*events} == {Bound(65)}
    else:
        assert line["outcome_events"] == 60 + again
        assert {*events} == {60 + again}


def test_sums_that_share_a_total_are_searched_one_by_one():
    """Before, two sums with one total were taken for one that did not hold."""
    counts = np.array([50, 50, 20, 20, 16, 4])
    splits = sum_splits([500, 500, 210, 210, 140, 70], counts)
    assert sum(len(parts) for parts, _ in splits) == 4
    for parts, totals in splits:
        sums = np.bincount(totals, counts[parts], len(counts))
        assert (sums[totals] == counts[totals]).all()
    found = unnarrowed_counts(counts, [50, 50, 20, 20, 16, Bound(5)], splits, DisclosureRules())
    assert isinstance(found[4], Bound)


def test_counts_that_add_up_narrow_no_small_one():
    """Days tell that the second and the third window make up the first one."""
    rules, few = DisclosureRules(), Bound(5)
    for counts, told, wanted in (
        ([20, 18, 2], [20, 18, few], [20, Bound(20), few]),
        ([8, 4, 4], [8, few, few], [Bound(9), few, few]),
        ([5, 1, 4], [5, few, few], [5, few, few]),
        ([20, 14, 6], [20, 14, 6], [20, 14, 6]),
    ):
        splits = sum_splits([210, 70, 140], counts)
        assert unnarrowed_counts(counts, told, splits, rules) == wanted
    # A third analysis with the same window has the same bound, also for its parts in three.
    counts, days = [20, 20, 12, 6, 2], [210, 210, 70, 70, 70]
    found = unnarrowed_counts(counts, [20, 20, 12, 6, few], sum_splits(days, counts), rules)
    assert found[:2] == [20, 20]
    assert isinstance(found[3], Bound)
    assert not sum_splits([210, 70, 150], [20, 18, 2])


def test_rounded_counts_at_the_limits_of_their_ranges_narrow_no_small_one():
    """25 to 30 outcomes of which at most 18 are of the old leave the young at least 7."""
    rules, few = DisclosureRules("opensafely", LEAST["opensafely"]), Bound(8)
    for counts, told, wanted in (
        ([25, 18, 7], [27, 15, few], [27, Bound(30), few]),
        ([24, 18, 6], [21, 15, few], [21, 15, few]),
        ([24, 20, 4], [21, 21, few], [21, 21, few]),  # Up to 5: five possible values.
    ):
        splits = sum_splits([210, 140, 70], counts)
        assert unnarrowed_counts(counts, told, splits, rules) == wanted


def test_the_outcomes_in_no_window_of_a_case_series_do_not_follow_from_the_others():
    for seed, rest in ((137, 4), (186, 1)):  # 85 - 6 - 7 - 68, and 42 - 32 - 9
        exact = exact_series(np.random.default_rng([66, seed]))
        release = released_series(exact, DisclosureRules(), None)
        counts = release.counts.values()
        events = exact["study"].intervals.statistics["events"].sum()
        assert next(iter(counts)).observed_events - events == rest
        assert any(isinstance(c.events, Bound) for c in counts)
