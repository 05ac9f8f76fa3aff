"""Case-only and case–control designs: loops over days, Cox regression, published numbers."""

import datetime as dt
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binomtest
from tests.designs.case_only_tables import drawn, exposed
from tests.designs.test_case_series_published import tables

import steropes
from steropes.designs import RiskPeriod
from steropes.designs.case_only import (
    case_crossover,
    case_time_control,
    nested_case_control,
    self_controlled_cohort,
    self_controlled_risk_interval,
)

DataError, SeparationError = steropes.DataError, steropes.SeparationError


@pytest.mark.parametrize("seed", [0, 1])
def test_windows_of_a_crossover_are_those_of_a_loop(seed):
    events, exposures, observation = drawn(seed)
    made = case_crossover(
        events, exposures, observation, exposure="drug", window=(-13, -1), references=[-20, -40],
        washout=25,
    )  # fmt: skip
    expected = []
    first = events.groupby("id")["day"].min()
    for row in observation.itertuples():
        day = first.get(row.id, -1)
        if not (row.start + 25 <= day <= row.end):
            continue
        starts = [day - 13 + k for k in (0, -20, -40)]
        if starts[1] < row.start:
            continue
        for k, begin in enumerate(starts):
            if begin >= row.start:
                found = [exposed(exposures, row.id, d, begin, begin + 12) for d in "ab"]
                expected.append((row.id, int(k == 0), day, *map(int, found)))
    table = made.sets[["id", "case", "day", "a", "b"]]
    assert sorted(table.itertuples(index=False, name=None)) == sorted(expected)
    model = steropes.ConditionalLogisticRegression()
    model.fit(made.sets[["a", "b"]], made.sets["case"], strata=made.sets["set"])
    np.testing.assert_allclose(made.estimates["log_ratio"], model.coef_, rtol=1e-10)
    np.testing.assert_allclose(made.estimates["se"], model.summary()["se"], rtol=1e-10)
    counts = made.sets.groupby("case")[["a", "b"]].sum()
    assert made.estimates["exposed_cases"].tolist() == counts.loc[1].tolist()
    assert made.estimates["exposed_references"].tolist() == counts.loc[0].tolist()


def test_purpura_after_vaccination():
    # R's SCCS itpdat, all events: 13 against 4 discordant pairs.
    events, exposures, observation = tables("itpdat", "itp", {"mmr": ["mmr"]})
    made = case_crossover(
        events, exposures, observation.assign(start=0), id="case", window=(-41, 0),
        references=-42, washout=0, first_event_only=False,
    )  # fmt: skip
    line = made.estimates.iloc[0]
    assert line["log_ratio"] == pytest.approx(1.178654996, abs=5e-9)
    assert made.model.summary()["se"].iloc[0] == pytest.approx(0.5717718749, abs=5e-9)
    assert (line["exposed_cases"], line["exposed_references"]) == (13, 4)
    assert line["errors"] == "robust"  # Some people have several events.


def pairs(cases, controls):
    """People exposed in the window (first number) or in the reference window (second)."""
    start = [290] * cases[0] + [225] * cases[1] + [290] * controls[0] + [225] * controls[1]
    n, m = len(start), sum(cases)
    observation = pd.DataFrame({"id": range(n), "start": 0, "end": 400})
    index = pd.DataFrame({"id": range(n), "day": 300})
    return index[:m], index[m:], pd.DataFrame({"id": range(n), "start": start}), observation


def test_the_ratio_of_cases_is_divided_by_that_of_controls_and_variances_add():
    table = case_time_control(*pairs((30, 10), (24, 16))).estimates
    np.testing.assert_allclose(table["ratio"], [2, 3, 1.5], rtol=1e-8)
    own = [1 / 30 + 1 / 10, 1 / 24 + 1 / 16]
    np.testing.assert_allclose(table["se"] ** 2, [sum(own), *own], rtol=1e-8)
    assert (table["errors"] == "model").all()


def test_future_cases_are_sampled_from_people_with_a_later_event():
    rng = np.random.default_rng(1)
    n = 300
    observation = pd.DataFrame({"id": range(n), "start": 0, "end": 1000})
    events = pd.DataFrame({"id": range(n), "day": rng.integers(150, 1001, n)})
    exposures = pd.DataFrame({"id": rng.integers(0, n, 4000), "start": rng.integers(0, 1000, 4000)})
    call = {"washout": 120, "controls_per_case": 2, "future_gap": 30}
    made = case_time_control(events, "future cases", exposures, observation, **call)
    day = events.set_index("id")["day"]
    controls = made.sets[(made.sets["control"] == 1) & (made.sets["case"] == 1)]
    assert (day[controls["id"]].to_numpy() > controls["day"] + 30).all()
    per_case = controls.groupby("day").size() / day.value_counts()[controls["day"].unique()]
    assert per_case.max() == 2  # at the days of cases, two for each
    again = case_time_control(
        events[::-1], "future cases", exposures[::-1], observation[::-1], **call
    )
    pd.testing.assert_frame_equal(made.estimates, again.estimates)
    assert (made.estimates["errors"] == "robust").all()
    model, own = made.model, made.sets["id"]
    covariance = model.vcov("robust", cluster=own).to_numpy()
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    assert made.estimates["se"].iloc[0] == pytest.approx(np.sqrt(variance), rel=1e-10)


def test_future_cases_remove_the_bias_of_persistent_use():
    rng = np.random.default_rng(2)
    n = 2000
    observation = pd.DataFrame({"id": range(n), "start": 0, "end": 1200})
    events = pd.DataFrame({"id": range(n), "day": rng.integers(300, 1000, n)})
    # Use begins at some time and mostly goes on, whatever the event.
    begin = rng.integers(0, 1200, n)
    last = begin + rng.exponential(1000, n).astype(int)
    exposures = pd.DataFrame({"id": range(n), "start": begin, "end": last})
    crude, adjusted = (
        case_time_control(events, "future cases", exposures, observation).estimates.iloc[k]
        for k in (1, 0)
    )
    assert crude["lower"] > 1.1
    assert adjusted["lower"] < 1 < adjusted["upper"]


def test_risk_intervals_are_the_ratio_of_two_rates():
    n = 60
    people = pd.DataFrame({"id": range(n), "start": 0, "end": 365})
    doses = pd.DataFrame({"id": range(n), "start": 100})
    events = pd.DataFrame({"id": range(n), "day": [103] * 25 + [80] * 15 + [140] * 5 + [300] * 15})
    made = self_controlled_risk_interval(
        events, doses, people, risk_periods=(1, 14), control_periods=[(-42, -15), (29, 42)]
    )
    line = made.estimates.iloc[0]
    assert line["rr"] == pytest.approx((25 / 14) / (20 / 42), rel=1e-9)
    assert line["se"] == pytest.approx(np.sqrt(1 / 25 + 1 / 20), rel=1e-9)
    assert made.attrition["events"].tolist()[-1] == 45


def test_risk_intervals_are_a_case_series_on_the_days_of_their_periods():
    events, exposures, observation = drawn(9, people=250)
    exposures = exposures.drop_duplicates(["id", "drug"])
    made = self_controlled_risk_interval(
        events, exposures, observation, exposure="drug", risk_periods=RiskPeriod(end_at="end"),
        control_periods=(-60, -8), age=[150, 250],
    )  # fmt: skip
    day = np.arange(400)
    X, y, strata = [], [], []
    for row in observation.itertuples():
        own = exposures[exposures["id"] == row.id].set_index("drug")
        risk, near = np.zeros((2, len(day), 2), bool)
        for k, drug in enumerate("ab"):
            if drug in own.index:
                start, end = own.loc[drug, ["start", "end"]]
                risk[:, k] = (start <= day) & (day <= end)
                near[:, k] = (start - 60 <= day) & (day <= start - 8)
        kept = (row.start <= day) & (day <= row.end) & (risk | near).any(axis=1)
        groups = np.column_stack([(day >= 150) & (day < 250), day >= 250])
        X.append(np.hstack([risk, groups])[kept])
        y.append(np.isin(day, events.loc[events["id"] == row.id, "day"])[kept])
        strata += [row.id] * int(kept.sum())
    model = steropes.ConditionalPoissonRegression()
    model.fit(np.vstack(X).astype(float), np.concatenate(y).astype(float), strata=strata)
    np.testing.assert_allclose(made.estimates["log_rr"], model.coef_, rtol=1e-6)


def test_a_self_controlled_cohort_counts_events_and_days_of_a_loop():
    events, exposures, observation = drawn(10, people=150)
    made = self_controlled_cohort(events, exposures, observation, exposure="drug")
    for drug in "ab":
        total = np.zeros(4, int)
        for row in observation.itertuples():
            own = exposures[(exposures["id"] == row.id) & (exposures["drug"] == drug)]
            own = own.sort_values(["start", "end"])
            if not len(own) or not row.start <= own["start"].iloc[0] <= row.end:
                continue
            start, end = own[["start", "end"]].iloc[0]
            day = events.loc[events["id"] == row.id, "day"].min()
            for k, (a, b) in enumerate(
                [(start + 1, end + 30), (start - 30 - end + start, start - 1)]
            ):
                a, b = max(a, row.start), min(b, row.end)
                total[2 * k : 2 * k + 2] += [a <= day <= b, max(b - a + 1, 0)]
        counts = ["events_at_risk", "days_at_risk", "events_before", "days_before"]
        assert made.estimates.loc[drug, counts].tolist() == total.tolist()


def test_limits_of_a_self_controlled_cohort_are_exact():
    people = pd.DataFrame({"id": range(100), "start": 1, "end": 400})
    drugs = pd.DataFrame({"id": range(100), "start": 200})
    events = pd.DataFrame({"id": range(15), "day": [210] * 10 + [180] * 5})
    line = self_controlled_cohort(events, drugs, people).estimates.iloc[0]
    test = binomtest(10, 15)
    share = np.array(test.proportion_ci(method="exact"))
    assert line["ratio"] == 2
    np.testing.assert_allclose(line[["lower", "upper"]].astype(float), share / (1 - share))
    assert line["p"] == pytest.approx(test.pvalue)
    none = self_controlled_cohort(events[:10], drugs, people).estimates.iloc[0]
    assert none["ratio"] == np.inf == none["upper"]
    assert none["lower"] > 1
    assert np.isnan(none["se"])


DESIGNS = {
    "crossover": lambda e, x, o, **s: case_crossover(e, x, o, **s),
    "time control": lambda e, x, o, **s: case_time_control(e, "future cases", x, o, **s),
    "nested": lambda e, x, o, **s: nested_case_control(e, x, o, **s),
    "cohort": lambda e, x, o, **s: self_controlled_cohort(e, x, o, **s),
    "interval": lambda e, x, o, **s: self_controlled_risk_interval(
        e, x, o, risk_periods=(1, 20), control_periods=(-30, -1), **s
    ),
}


@pytest.mark.parametrize("design", DESIGNS)
def test_dates_and_tables_of_other_libraries_give_the_same(design):
    made = DESIGNS[design]
    call = {"washout": 30} if design in ("crossover", "time control", "nested") else {}
    call |= {"window": (-9, 0), "references": -20} if "window" in str(call) else {}
    if design in ("crossover", "time control"):
        call |= {"window": (-9, 0), "references": -20}
    given = drawn(11, people=300)
    plain = made(*given, exposure="drug", **call)
    assert repr(plain)
    assert plain.summary().paper_table().shape[0] == len(plain.summary())

    def dated(table):
        days = [c for c in ("day", "start", "end") if c in table]
        moved = {c: pd.Timestamp("2010-01-01") + pd.to_timedelta(table[c], unit="D") for c in days}
        return pl.from_pandas(table.assign(**moved, id=table["id"].astype(str)))

    other = made(*map(dated, given), exposure="drug", **call)
    if design in ("time control", "nested"):  # Other ids have another order in the sample.
        assert other.attrition["events"].iloc[0] == plain.attrition["events"].iloc[0]
    else:
        pd.testing.assert_frame_equal(pd.DataFrame(other.estimates), pd.DataFrame(plain.estimates))


def test_a_page_has_the_estimates_and_the_call(tmp_path):
    made = case_time_control(*pairs((30, 10), (24, 16)), level=0.9)
    made.write_report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "steropes.designs.case_only.case_time_control(" in text
    assert "level=0.9" in text
    assert "cases against controls" in text
    assert "<svg" in text
    made.plot()


WRONG = [
    ({"references": -20}, "reference window at -20 overlaps the window of the event"),
    ({"references": [-60, -70]}, "reference window at -70 overlaps that at -60"),
    ({"references": 30}, "overlaps the window of the event"),
    ({"references": "x"}, "references must be days by which the window is moved"),
    ({"window": (0, -30)}, "window ends on day -30, before it starts on day 0"),
    ({"window": (-30, 5)}, "after the index day"),
    ({"window": 3}, "window must be the first and last day"),
    ({"washout": -1}, "washout must be a whole number of 0 or more"),
    ({"washout": 350}, "No event remains after the rule"),
    ({"first_event_only": 1}, "first_event_only must be True or False"),
    ({"level": 2}, "level must be between 0 and 1"),
    ({"event_day": "when"}, "events has no column 'when'"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG, ids=[m for _, m in WRONG])
def test_wrong_arguments_of_a_crossover(settings, message):
    cases, _, drugs, people = pairs((3, 2), (1, 1))
    with pytest.raises(DataError, match=message):
        case_crossover(cases, drugs, people, **settings)


def test_wrong_tables():
    cases, controls, drugs, people = pairs((30, 10), (5, 5))
    with pytest.raises(DataError, match="overlapping periods of one 'id' in the rows 0 and 1"):
        case_crossover(cases, drugs, people.assign(id=people["id"] // 2))
    with pytest.raises(DataError, match=re.escape("events['id'] is not in observation in row 0")):
        case_crossover(cases.assign(id=[99, *range(1, 40)]), drugs, people)
    with pytest.raises(DataError, match=re.escape("controls['id'] is not in observation")):
        case_time_control(cases, controls.assign(id=99), drugs, people)
    with pytest.raises(DataError, match="No set is discordant in 'exposed'"):
        case_crossover(cases, drugs.assign(start=100), people)
    with pytest.raises(DataError, match=re.escape("No set is discordant in 'exposed (controls)'")):
        case_time_control(cases, controls, drugs[:40], people)
    with pytest.raises(SeparationError, match="exposed"):
        case_crossover(cases[:30], drugs, people)
    with pytest.raises(DataError, match="are for controls='future cases'"):
        case_time_control(cases, controls, drugs, people, seed=1)
    with pytest.raises(DataError, match="No case has a future case"):
        case_time_control(cases, "future cases", drugs, people)
    dates = people.assign(start=dt.date(2010, 1, 1), end=dt.date(2011, 1, 1))
    with pytest.raises(DataError, match="give all days as dates, or all as numbers"):
        case_crossover(cases, drugs, dates)
