"""Case series from tables: intervals day by day, tables of any library, borders and bad input."""

import datetime as dt
import inspect
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.designs.case_series_by_day import days_by_covariates

import steropes
from steropes.designs import RiskPeriod

call = steropes.self_controlled_case_series
DataError = steropes.DataError


def random_tables(rng):
    """Few people with short observation, so that everything overlaps and lies at borders."""
    people, events, exposures = [], [], []
    for person in range(12):
        start = int(rng.integers(0, 40))
        while start < 500 and (not people or rng.random() < 0.9):
            end = start + int(rng.integers(0, 200))
            people.append((person, start, end))
            start = end + int(rng.integers(1, 60))
            if rng.random() < 0.6:
                break
        for _ in range(rng.integers(0, 4)):
            own = [p for p in people if p[0] == person]
            if own:
                _, a, b = own[rng.integers(len(own))]
                day = rng.choice([a, b, int(rng.integers(a, b + 1)), b + 1])
                events.append((person, int(day)))
        for name in ("a", "b"):
            for _ in range(rng.integers(0, 5)):
                first = int(rng.integers(-20, 400))
                exposures.append((person, name, first, first + int(rng.integers(0, 30))))
    return people, events, exposures


PERIODS = [
    [RiskPeriod(0, 10), RiskPeriod(11, 30)],
    [RiskPeriod(-14, -1), RiskPeriod(0, 0, end_at="end"), RiskPeriod(1, 20, "end", "end")],
    [RiskPeriod(0, 6, by_dose=True, within_era=True), RiskPeriod(5, 25, first_only=True)],
    [RiskPeriod(0, 20, exposure="a"), RiskPeriod(0, 5, end_at="end", exposure="b", by_dose=True)],
]


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(8))
def test_intervals_are_those_of_a_loop_over_days(seed):
    rng = np.random.default_rng(seed)
    people, events, exposures = random_tables(rng)
    periods, gap = PERIODS[seed % 4], (0, None, 5)[seed % 3]
    age = [60, 150] if seed % 2 else None
    season = [2, 6, 9] if seed in (1, 2, 4) else None
    inside = [(i, d) for i, d in events if any(i == p and a <= d <= b for p, a, b in people)]
    if not inside:
        events.append((people[0][0], people[0][1]))
    frame = pd.DataFrame(people, columns=["id", "start", "end"]).assign(born=dt.date(1970, 1, 1))
    result = call(
        pd.DataFrame(events, columns=["id", "day"]).sample(frac=1, random_state=seed),
        pd.DataFrame(exposures, columns=["id", "drug", "start", "end"]),
        frame.sample(frac=1, random_state=seed), exposure="drug", risk_periods=periods, gap=gap,
        age=age, season=season, birth="born",
    )  # fmt: skip
    expected = days_by_covariates(people, events, exposures, periods, gap, age, season)
    varying = [rows for rows in expected.values() if len(rows) > 1]
    groups = {key for rows in varying for on in rows for key in on if isinstance(key, tuple)}
    made = result.intervals
    assert made.case.max(initial=-1) < len(expected)
    # Our rows in the order of cases; names of groups are compared through their numbers.
    number = {
        **{
            f"age {text}": ("age", k)
            for k, text in enumerate(("below 60", "60 to 149", "from 150"))
        },
        **{f"season from {m:02d}-01": ("season", m) for m in (2, 6, 9)},
    }
    own = {}
    X = made.X.tocsr()
    for row in range(len(made)):
        on = [made.names[j] for j in X.indices[X.indptr[row] : X.indptr[row + 1]]]
        key = frozenset(number.get(name, name) for name in on)
        own.setdefault(int(made.case[row]), {})[key] = (made.days[row], made.events[row])
    known = {key for rows in own.values() for on in rows for key in on if isinstance(key, tuple)}
    reference = groups - known  # Relative to which the others are; it has no column.
    found = [{frozenset(key - reference): value for key, value in rows.items()} for rows in varying]
    merged = [m for m in found if len(m) > 1]
    assert list(own.values()) == merged


@pytest.fixture
def tables():
    rng = np.random.default_rng(3)
    n = 60
    start = rng.integers(20, 80, n)
    people = pd.DataFrame({"id": np.arange(n), "start": 1, "end": 200})
    doses = pd.DataFrame({"id": np.arange(n), "start": start, "end": start + 4})
    day = np.where(rng.random(n) < 0.4, start + rng.integers(0, 10, n), rng.integers(1, 200, n))
    events = pd.DataFrame({"id": np.arange(n), "day": day})
    return events, doses, people


def test_the_likelihood_is_conditional_poisson(tables):
    result = call(*tables, risk_periods=(0, 9))
    events, doses, _ = tables
    inside = (events["day"] >= doses["start"]) & (events["day"] <= doses["start"] + 9)
    share = np.full(len(events), 10 / 200)
    beta = np.log(inside.sum() / (~inside).sum() * (1 - share[0]) / share[0])
    assert result.estimates["log_rr"].iloc[0] == pytest.approx(beta, abs=1e-8)
    assert result.estimates["days"].iloc[0] == 600


def test_tables_of_any_library_and_dates_agree(tables, tmp_path):
    duckdb, pl, pa = (pytest.importorskip(x) for x in ("duckdb", "polars", "pyarrow"))
    expected = call(*tables, risk_periods=(0, 9), age=[100]).estimates
    events, doses, people = tables
    path = tmp_path / "events.parquet"
    events.to_parquet(path)
    for some in (
        [pl.from_pandas(x) for x in tables],
        [path, pa.Table.from_pandas(doses), duckdb.from_df(people)],
        [events.astype("Int64"), doses.astype(float), people.astype({"id": "category"})],
    ):
        found = call(*some, risk_periods=(0, 9), age=[100]).estimates
        pd.testing.assert_frame_equal(found, expected)
    origin = pd.Timestamp("2010-03-01")
    dated = [
        x.assign(**{c: origin + pd.to_timedelta(x[c], "D") for c in x if c != "id"}) for x in tables
    ]
    dated[2] = dated[2].assign(born=origin)
    found = call(*dated, risk_periods=(0, 9), age=[100], birth="born")
    pd.testing.assert_frame_equal(found.estimates, expected)
    zoned = [
        x.assign(**{c: (x[c] + pd.Timedelta("23h")).dt.tz_localize("Asia/Tokyo") for c in x
                    if c not in ("id", "born")})
        for x in dated
    ]  # fmt: skip
    again = call(*zoned, risk_periods=(0, 9), age=[100], birth="born")
    pd.testing.assert_frame_equal(again.estimates, expected)
    assert found.diagnostics.set_index("diagnostic").loc["convergence", "passed"]


def test_rows_may_be_in_any_order_and_tables_are_not_changed(tables):
    before = [x.copy(deep=True) for x in tables]
    expected = call(*tables, risk_periods=(0, 9))
    shuffled = [x.sample(frac=1, random_state=1) for x in tables]
    found = call(*shuffled, risk_periods=(0, 9))
    pd.testing.assert_frame_equal(found.estimates, expected.estimates)
    for now, then in zip(tables, before, strict=True):
        pd.testing.assert_frame_equal(now, then)


def test_repeated_events_of_a_day_count_once_and_outside_ones_not(tables):
    events, doses, people = tables
    outside = pd.DataFrame({"id": [0, 1], "day": [0, 201]})
    found = call(pd.concat([events, events, outside]), doses, people, risk_periods=(0, 9))
    pd.testing.assert_frame_equal(found.estimates, call(*tables, risk_periods=(0, 9)).estimates)
    assert found.attrition["events"].tolist() == [62, 60, 60]


def test_people_without_events_or_exposures_are_allowed(tables):
    events, doses, people = tables
    more = pd.DataFrame({"id": [100, 101], "start": 1, "end": 200})
    unexposed = pd.DataFrame({"id": [0, 100], "start": [np.nan, 5], "end": [np.nan, 9]})
    found = call(events, pd.concat([doses, unexposed]), pd.concat([people, more]),
                 risk_periods=(0, 9))  # fmt: skip
    pd.testing.assert_frame_equal(found.estimates, call(*tables, risk_periods=(0, 9)).estimates)


def test_first_events_only(tables):
    events, doses, people = tables
    later = pd.concat([events, events.assign(day=lambda x: x["day"].clip(upper=199) + 1)])
    found = call(later, doses, people, risk_periods=(0, 9), first_event_only=True)
    pd.testing.assert_frame_equal(found.estimates, call(*tables, risk_periods=(0, 9)).estimates)


def test_default_period_is_the_era_and_pre_exposure_is_judged(tables):
    periods = {"before": (-14, -1), "exposed": RiskPeriod(end_at="end")}
    found = call(*tables, risk_periods=periods, end_of_observation_days=20)
    assert found.estimates["kind"].tolist() == ["pre-exposure", "risk period", "end of observation"]
    assert found.estimates.loc["exposed", "days"] == 300
    names = found.diagnostics["diagnostic"].tolist()
    assert "events before exposure (before)" in names
    plain = call(*tables)
    assert plain.estimates.index.tolist() == ["exposed"]


def test_groups_of_calendar_time_and_of_age_agree_for_people_born_together(tables):
    events, doses, people = tables
    people = people.assign(born=dt.date(2000, 1, 1))
    by_date = call(
        events, doses, people, risk_periods=(0, 9), birth="born", calendar=["2000-04-10"]
    ).estimates
    by_age = call(*tables, risk_periods=(0, 9), age=[100]).estimates
    assert by_date.index.tolist() == ["days 0 to 9", "calendar time from 2000-04-10"]
    np.testing.assert_allclose(by_date["rr"], by_age["rr"], rtol=1e-12)


def test_effects_of_time_can_be_splines(tables):
    spline = steropes.designs.case_series.Spline(3)
    result = call(*tables, risk_periods=(0, 9), age=spline)
    assert result.estimates["kind"].tolist() == ["risk period", *["time"] * 3]
    assert np.isfinite(result.estimates.iloc[0][["rr", "lower", "upper", "se"]].astype(float)).all()


def test_results_draw_themselves_and_write_a_page(tables, tmp_path):
    result = call(*tables, risk_periods=[(0, 4), (5, 9)], age=[100])
    assert len(result.plot().get_yticklabels()) == 2
    assert len(result.plot("time").get_yticklabels()) == 1
    assert result.plot("events").get_ylabel() == "Events"
    path = tmp_path / "series.html"
    result.write_report(path)
    text = path.read_text(encoding="utf-8")
    assert "Who remains" in text
    assert "risk_periods=[(0, 4), (5, 9)],\n    age=[100],\n)" in text
    assert text.count("<svg") == 3
    assert "days 0 to 4" in repr(result)
    assert "Rate ratio (95% CI)" in result.summary().paper_table().columns[0]


def with_(table, row, **values):
    """A table with other values in one row."""
    changed = table.astype(object)
    for name, value in values.items():
        changed.loc[row, name] = value
    return changed


SHANGHAI = pd.Timestamp("2020-01-01", tz="Asia/Shanghai")
NEW_YEAR = pd.Timestamp("2020-01-01")
BAD = {
    r"events has no column 'day'": lambda e, x, o: (e.rename(columns={"day": "d"}), x, o),
    r"events\['day'\] is missing in row 3": lambda e, x, o: (with_(e, 3, day=None), x, o),
    r"events\['day'\] must be whole numbers": lambda e, x, o: (e.assign(day=e["day"] + 0.5), x, o),
    r"events\['day'\] has dates, but": lambda e, x, o: (e.assign(day=NEW_YEAR), x, o),
    r"events\['id'\] is not in observation in row 5": (lambda e, x, o: (with_(e, 5, id=999), x, o)),
    "Ids are numbers in one table": lambda e, x, o: (e.assign(id=e["id"].astype(str)), x, o),
    r"ends \('end'\) before it starts \('start'\) in row 2": (
        lambda e, x, o: (e, x, with_(o, 2, end=0))
    ),
    "overlapping periods of one 'id' in the rows 4 and 60": (
        lambda e, x, o: (e, x, pd.concat([o, o.iloc[[4]]]))
    ),
    r"observation\['end'\] is missing in row 7": lambda e, x, o: (e, x, with_(o, 7, end=None)),
    r"exposures\['end'\] is before 'start' in row 6": lambda e, x, o: (e, with_(x, 6, end=0), o),
    r"exposures\['end'\] is missing in row 6": lambda e, x, o: (e, with_(x, 6, end=None), o),
    r"events\['day'\] must be dates or whole numbers of days, not bool": (
        lambda e, x, o: (e.assign(day=True), x, o)
    ),
    "events is empty": lambda e, x, o: (e.iloc[:0], x, o),
    "observation is empty": lambda e, x, o: (e, x, o.iloc[:0]),
    "Nobody in observation has a row": lambda e, x, o: (e, x.iloc[:0], o),
    "No event is within the observation": lambda e, x, o: (e.assign(day=900), x, o),
    "no case has a day in a window": lambda e, x, o: (e, x.assign(start=900, end=901), o),
    "has times of the time zone": lambda e, x, o: (
        e.assign(day=SHANGHAI),
        x.assign(start=NEW_YEAR.tz_localize("UTC"), end=NEW_YEAR),
        o.assign(start=NEW_YEAR, end=NEW_YEAR),
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_tables_are_named(tables, message):
    with pytest.raises(DataError, match=message):
        call(*BAD[message](*tables), risk_periods=(0, 9))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"risk_periods": (9, 0)}, "before it starts"),
        ({"risk_periods": []}, "risk_periods is empty"),
        ({"risk_periods": "0-9"}, "pairs of days"),
        ({"risk_periods": [(0, 9), (0, 9)]}, "more than once"),
        ({"risk_periods": RiskPeriod(0, 9, exposure="x")}, "no column exposure="),
        ({"age": [50, 20]}, "ascending order"),
        ({"age": "free"}, "'semiparametric'"),
        ({"age": 1}, "two groups or more"),
        ({"season": [1, 7]}, "season needs dates"),
        ({"calendar": ["2020-01-01"]}, "calendar needs dates"),
        ({"birth": "born"}, "observation has no column 'born'"),
        ({"exposure": "drug"}, "exposures has no column 'drug'"),
        ({"dose": "number"}, "exposures has no column 'number'"),
        ({"event_dependent": "both"}, "must be 'exposure', 'observation' or None"),
        ({"event_dependent": "observation"}, "needs ended_early="),
        ({"ended_early": "died"}, "ended_early is for"),
        ({"event_dependent": "exposure", "risk_periods": (-5, 9)}, "begins before exposure"),
        ({"event_dependent": "exposure", "end_of_observation_days": 9}, "goes with groups"),
        ({"age": "semiparametric", "end_of_observation_days": 9}, "goes with groups"),
        ({"level": 2}, "level"),
        ({"id": 3}, "id must be the name of a column"),
        ({"start": "end"}, "start and end are both the column 'end'"),
        ({"gap": -1}, "gap"),
        ({"first_event_only": 1}, "first_event_only"),
    ],
)
def test_bad_settings_are_named(tables, settings, message):
    with pytest.raises(DataError, match=message):
        call(*tables, **{"risk_periods": (0, 9), **settings})


def test_an_exposure_column_without_days_at_its_end_needs_no_end(tables):
    events, doses, people = tables
    points = doses.drop(columns="end")
    assert call(events, points, people, risk_periods=(0, 4)).estimates["days"].iloc[0] == 300
    with pytest.raises(DataError, match="needs the last day of exposures"):
        call(events, points, people)


def test_doses_rise_with_time(tables):
    events, doses, people = tables
    second = doses.assign(start=doses["start"] + 40, end=doses["end"] + 40)
    both = pd.concat([doses.assign(k=1), second.assign(k=2)])
    settings = {"risk_periods": RiskPeriod(0, 9, by_dose=True)}
    found = call(events, both, people, dose="k", **settings)
    pd.testing.assert_frame_equal(found.estimates, call(events, both, people, **settings).estimates)
    assert found.estimates.index.tolist() == ["dose 1: days 0 to 9", "dose 2: days 0 to 9"]
    with pytest.raises(DataError, match="not above those of earlier"):
        call(events, both.assign(k=lambda x: 3 - x["k"]), people, dose="k", **settings)
    with pytest.raises(DataError, match="must be the number of the dose"):
        call(events, both.assign(k=0), people, dose="k", **settings)


def test_only_the_columns_that_are_used_are_read(tables, tmp_path):
    events, doses, people = tables
    path = tmp_path / "doses.parquet"
    doses.assign(note=[{"nested": 1}] * len(doses)).to_parquet(path)
    found = call(events.assign(text="x"), path, people)
    assert found.estimates["days"].iloc[0] == 300


def test_no_ratio_may_be_finite(tables):
    """Without any event in the period the estimate is zero, with all events it is infinite."""
    events, doses, people = tables
    inside = (events["day"] - doses["start"]).between(0, 9)
    for kept, rr in ((~inside, 0.0), (inside, np.inf)):
        result = call(events[kept], doses, people, risk_periods=(0, 9))
        line = result.estimates.iloc[0]
        assert line["rr"] == rr
        assert np.isnan(line["se"])
        assert "in it; the estimate is" in line["note"]
        result.plot()
        assert "rr" in repr(result)


def test_the_page_for_users_of_r_names_arguments_that_exist():
    path = Path(__file__).parents[2] / "docs" / "coming_from_sccs.md"
    section = path.read_text(encoding="utf-8").split("## R's SCCS")[1]
    known = {*inspect.signature(call).parameters, *(f.name for f in fields(RiskPeriod))}
    right = [line.split("|")[2] for line in section.splitlines() if line.startswith("| `")]
    named = {m for cell in right for m in re.findall(r"`([a-z_]+)(?:=[^`]*)?`", cell)}
    assert {"risk_periods", "by_dose", "event_dependent"} <= named <= known
