"""Case series from tables: the numbers of the help pages of R's SCCS 1.7."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize

import steropes
from steropes.designs import RiskPeriod

FOLDER = Path(__file__).parent / "published" / "sccs"


def tables(name, event, drugs, start="sta", end="end", more=()):
    """The three tables of a data set; drugs are {exposure: [columns of doses]}."""
    wide = pd.read_csv(FOLDER / f"{name}.csv")
    events = wide[["case", event]].rename(columns={event: "day"})
    renamed = {start: "start", end: "end"}
    people = wide[["case", start, end, *more]].drop_duplicates().rename(columns=renamed)
    exposures = [
        wide[["case", column]].rename(columns={column: "start"}).assign(drug=drug, dose=k + 1)
        for drug, columns in drugs.items()
        for k, column in enumerate(columns)
    ]
    return events, pd.concat(exposures).drop_duplicates(), people


def estimated(made, **settings):
    return steropes.self_controlled_case_series(*made, id="case", **settings)


PURPURA = {"age": [427, 488, 549, 610, 671]}
THREE = [(0, 14), (15, 28), (29, 42)]


@pytest.fixture(scope="module")
def purpura():
    return tables("itpdat", "itp", {"mmr": ["mmr"]})


def test_one_risk_period_with_groups_of_age(purpura):
    line = estimated(purpura, risk_periods=(0, 42), **PURPURA).estimates.iloc[0]
    assert line["log_rr"] == pytest.approx(1.17130232, abs=5e-9)
    assert line["se"] == pytest.approx(0.379980235, abs=5e-9)
    assert line["events"] == 13


def test_three_risk_periods_with_groups_of_age(purpura):
    table = estimated(purpura, risk_periods=THREE, **PURPURA).summary()
    np.testing.assert_allclose(table["log_rr"], [0.269165935, 1.784059281, 0.955589795], atol=5e-9)
    np.testing.assert_allclose(table["se"], [0.752938916, 0.438839338, 0.637501225], atol=5e-9)


def test_a_free_effect_of_age(purpura):
    table = estimated(purpura, risk_periods=THREE, age="semiparametric").summary()
    np.testing.assert_allclose(table["log_rr"], [0.379797465, 1.694878535, 0.714684734], atol=5e-9)
    assert table["days"].tolist() == [464, 426, 408]  # days, and not ages at events


def test_washout_and_groups_of_age_by_quantiles():
    wide = pd.read_csv(FOLDER / "hipdat.csv")
    renamed = {"ad": "start", "endad": "end"}
    made = (
        wide[["case", "frac"]].rename(columns={"frac": "day"}),
        wide[["case", "ad", "endad"]].rename(columns=renamed),
        wide[["case", "sta", "end"]].rename(columns={"sta": "start"}),
    )
    periods = [
        RiskPeriod(0, 14, within_era=True),
        RiskPeriod(15, 42, within_era=True),
        RiskPeriod(43, 0, end_at="end"),
        RiskPeriod(1, 91, "end", "end"),
        RiskPeriod(92, 182, "end", "end"),
    ]
    table = estimated(made, risk_periods=periods, age=20).summary()
    expected = [0.7644023449, 0.6136697956, 0.4163091182, 0.2252976077, 0.0269212785]
    np.testing.assert_allclose(table["log_rr"], expected, atol=5e-9)
    assert table["se"].iloc[0] == pytest.approx(0.2723285, abs=5e-8)


def test_ratios_by_dose():
    made = tables("dtpdat", "conv", {"dtp": ["dtp", "dtpd2", "dtpd3"]})
    periods = [RiskPeriod(a, b, by_dose=True) for a, b in ((0, 3), (4, 7), (8, 14))]
    found = estimated(
        made, risk_periods=periods, dose="dose", exposure="drug", age=list(range(57, 338, 28))
    ).summary()
    names = [f"dtp dose 1: days {days}" for days in ("0 to 3", "4 to 7", "8 to 14")]
    expected = [0.4496455132, -0.1626291667, 0.224634638]
    np.testing.assert_allclose(found.loc[names, "log_rr"], expected, atol=5e-9)


def test_two_exposures():
    made = tables("condat", "conv", {"hib": ["hib"], "mmr": ["mmr"]})
    table = estimated(
        made, risk_periods=[(0, 7), (8, 14)], exposure="drug", age=list(range(387, 708, 20))
    ).summary()
    expected = [-0.1099944997, 0.0642406334, 0.1007966118, 0.8796482469]
    np.testing.assert_allclose(table["log_rr"], expected, atol=5e-9)


def test_groups_of_the_season():
    events, exposures, people = tables("intdat", "intus", {"opv": ["opv", "opvd2"]}, more=["dob"])
    dates = people["dob"].astype(str).str.zfill(8)
    people["dob"] = pd.to_datetime(dates, format="%d%m%Y")
    table = estimated(
        (events, exposures, people), risk_periods=THREE, birth="dob", season=list(range(1, 13)),
        age=list(range(30, 331, 30)),
    ).summary()  # fmt: skip
    np.testing.assert_allclose(table["log_rr"], [0.137902952, -0.056593577, 0.141619333], atol=5e-9)


@pytest.fixture(scope="module")
def rotavirus():
    return tables("rotdat", "intus", {"rv": ["rv", "rvd2"]})


DEPENDENT = {"event_dependent": "exposure", "age": list(range(56, 169, 14))}


def test_event_dependent_exposure(rotavirus):
    line = estimated(rotavirus, risk_periods=(1, 21), **DEPENDENT).estimates.iloc[0]
    assert line["log_rr"] == pytest.approx(1.28132635, abs=5e-9)
    assert line["se"] == pytest.approx(0.253859764, abs=5e-9)
    assert line["interval"] == "robust"
    standard = estimated(rotavirus, risk_periods=(1, 21), age=DEPENDENT["age"])
    assert standard.estimates["log_rr"].iloc[0] == pytest.approx(1.63015856, abs=5e-9)
    assert standard.estimates["se"].iloc[0] == pytest.approx(0.24764902, abs=5e-9)


def test_event_dependent_exposure_in_two_periods(rotavirus):
    table = estimated(rotavirus, risk_periods=[(1, 7), (8, 21)], **DEPENDENT).summary()
    np.testing.assert_allclose(table["log_rr"], [1.843419708, 0.918140503], atol=5e-9)
    np.testing.assert_allclose(table["se"], [0.30347109, 0.29965880], atol=5e-9)


def test_event_dependent_observation_differs_from_r_by_its_days():
    """R's numbers follow from our intervals, if the last day of each has no weight, as in R.

    R fits the density of the end at a point and integrates from the first day of an interval to the
    start of its last one: with a period of eight days seven count, and one day has no weight.
    """
    wide = pd.read_csv(FOLDER / "nrtdat.csv")
    end = np.where(wide["act"] == wide["mi"], wide["act"] + 1, wide["act"])
    # R's fit of its Weibull model of the interval, AIC 58.8191243.
    p = (31.89402243, -1.99410885, 0.69879345, -0.47374226)
    early, rate = 1 / (1 + np.exp(-p[2])), np.exp(-p[1])
    shape, short = np.exp(p[3]), np.exp(-p[0])

    def weight(t, until, cut):
        late = (1 - early) * np.exp(-(((until - t) * rate) ** shape))
        soon = early * np.exp(-short * (until - t))
        if not cut:
            return soon + late
        return soon * short + late * shape * rate * ((until - t) * rate) ** (shape - 1)

    rows = []
    for case, (first, last, event, cut) in enumerate(
        zip(wide["nrt"], end, wide["mi"], wide["cen"], strict=True)
    ):
        starts = [first + x for x in (0, 8, 15, 22, 29) if first + x <= last]
        for j, (a, b) in enumerate(zip(starts, [*starts[1:], last + 1], strict=True)):
            w = quad(weight, a / 365.25, (b - 1) / 365.25, args=(last / 365.25, cut), limit=200)[0]
            rows.append((case, j, max(w, 1e-15), a <= event < b))
    case, period, w, y = (np.array(x) for x in zip(*rows, strict=True))
    X = np.eye(5)[period][:, :4]

    def loss(beta):
        eta = X @ beta + np.log(w)
        return np.log(np.bincount(case, np.exp(eta))).sum() - eta[y].sum()

    beta = minimize(loss, np.zeros(4), options={"gtol": 1e-8}).x
    np.testing.assert_allclose(beta, [0.656272, 0.696402, 0.218298, 0.294885], atol=2e-6)


def test_event_dependent_observation_on_tables():
    made = tables("nrtdat", "mi", {"nrt": ["nrt"]}, "nrt", "act", ["cen"])
    periods = [(0, 7), (8, 14), (15, 21), (22, 28)]
    plain = estimated(made, risk_periods=periods).summary()
    found = estimated(
        made, risk_periods=periods, event_dependent="observation", ended_early="cen"
    ).summary()
    # Deaths end observation, so that the ratios of the simple model are too low.
    assert (found["log_rr"] > plain["log_rr"] + 0.3).all()
    np.testing.assert_allclose(found["se"], plain["se"], rtol=0.05)
