"""Event-dependent exposure: the estimating equations day by day, and events that end exposure."""

import numpy as np
import pandas as pd
import pytest

import steropes

call = steropes.self_controlled_case_series
END, PERIODS, CUT = 150, [(1, 10), (11, 25)], 70


def simulated(rng, n, contraindicated, ratio=3.0, earliest=10):
    """Cases with an event and two doses, of which events may prevent the later ones."""
    first = rng.integers(earliest, 60, n)
    doses = np.stack([first, first + rng.integers(15, 60, n)], axis=1)
    doses = np.where(rng.random((n, 1)) < 0.2, 10_000, doses)
    day = np.arange(1, END + 1)
    since = np.where(day < doses[:, 1:], day - doses[:, :1], day - doses[:, 1:])
    rate = np.where((since >= 1) & (since <= 25), ratio, 1.0) * np.where(day >= CUT, 1.5, 1.0)
    below = np.cumsum(rate, 1) / rate.sum(1, keepdims=True)
    event = 1 + (rng.random((n, 1)) > below).sum(1)
    if contraindicated:
        doses = np.where(doses > event[:, None], 10_000, doses)
    exposures = [(i, d) for i in range(n) for d in doses[i] if d <= END]
    return (
        pd.DataFrame({"id": np.arange(n), "day": event}),
        pd.DataFrame(exposures, columns=["id", "start"]),
        pd.DataFrame({"id": np.arange(n), "start": 1, "end": END}),
    )


def equations(beta, event, doses):
    """The equations of one case, from every day of every stack."""
    doses = [d for d in sorted(doses) if d <= event and d + PERIODS[-1][1] >= 1]

    def of(day):  # Dose and period of a day.
        given = [k for k, d in enumerate(doses) if d <= day]
        if not given:
            return None
        since = day - doses[given[-1]]
        at = [j for j, (a, b) in enumerate(PERIODS) if a <= since <= b]
        return (given[-1], at[0]) if at else None

    total = np.zeros(3)
    exposed_at_start = any(d <= 1 for d in doses)
    for stack in range(0 if exposed_at_start else -1, len(doses)):
        start = 1 if stack < 0 else max(doses[stack], 1)
        days = np.arange(start, END + 1)
        x = np.zeros((len(days), 3))
        for row, day in enumerate(days):
            on = of(day)
            if on is not None and on[0] == stack:
                x[row, on[1]] = 1
            x[row, 2] = day >= CUT
        share = np.exp(x @ beta)
        share /= share.sum()
        at_event = of(event)
        later = at_event is not None and at_event[0] > stack
        weight = np.exp(-beta[at_event[1]]) if later else 1.0
        total += weight * (x[event - start] - share @ x)
    return total


@pytest.mark.parametrize("earliest", [10, -40])
def test_the_equations_are_those_of_a_loop_over_days(earliest):
    """Exposure may also begin before observation, and then nobody is seen as if never exposed."""
    events, exposures, people = simulated(np.random.default_rng(1), 80, True, earliest=earliest)
    result = call(
        events, exposures, people, risk_periods=PERIODS, age=[CUT], event_dependent="exposure"
    )
    doses = exposures.groupby("id")["start"].apply(list).to_dict()
    beta = result.estimates["log_rr"].to_numpy()

    def by_case(at):
        return np.array(
            [
                equations(at, e, doses.get(i, []))
                for i, e in zip(events["id"], events["day"], strict=True)
            ]
        )

    at = by_case(beta)
    assert np.abs(at.sum(0)).max() < 1e-7
    step = 1e-5
    slope = np.stack(
        [
            (by_case(beta + h).sum(0) - by_case(beta - h).sum(0)) / (2 * step)
            for h in step * np.eye(3)
        ],
        axis=1,
    )
    inverse = np.linalg.inv(slope)
    expected = np.sqrt(np.diag(inverse @ (at.T @ at) @ inverse.T))
    np.testing.assert_allclose(result.estimates["se"], expected, rtol=1e-6)


def test_events_that_prevent_exposure_bias_the_simple_model_only():
    tables = simulated(np.random.default_rng(2), 4000, True)
    settings = {"risk_periods": (1, 25), "age": [CUT]}
    line = call(*tables, **settings, event_dependent="exposure").estimates.iloc[0]
    simple = call(*tables, **settings).estimates.iloc[0]
    assert abs(line["log_rr"] - np.log(3)) < 2.5 * line["se"]
    assert simple["log_rr"] - np.log(3) > 4 * simple["se"]


def test_without_exposure_after_events_the_models_agree():
    """If all exposure is before the event, both models see the same person-time."""
    tables = simulated(np.random.default_rng(3), 4000, False)
    settings = {"risk_periods": (1, 25), "age": [CUT]}
    line = call(*tables, **settings, event_dependent="exposure").estimates.iloc[0]
    simple = call(*tables, **settings).estimates.iloc[0]
    assert abs(line["log_rr"] - np.log(3)) < 2.5 * line["se"]
    assert abs(simple["log_rr"] - np.log(3)) < 2.5 * simple["se"]
    assert line["se"] > simple["se"]  # Exposures after the event are not used.


def test_a_period_without_events_is_named():
    events, exposures, people = simulated(np.random.default_rng(4), 60, True)
    since = events.merge(exposures, on="id")
    gone = since.loc[(since["day"] - since["start"]).between(1, 25), "id"]
    with pytest.raises(steropes.SeparationError, match="days 1 to 25"):
        call(
            events[~events["id"].isin(gone)], exposures, people, risk_periods=(1, 25),
            event_dependent="exposure",
        )  # fmt: skip


def test_a_person_has_one_event_and_there_is_one_exposure():
    events, exposures, people = simulated(np.random.default_rng(5), 60, True)
    again = pd.concat([events, events.assign(day=END - 1)])
    settings = {"risk_periods": (1, 25), "event_dependent": "exposure"}
    with pytest.raises(steropes.DataError, match="first_event_only=True"):
        call(again, exposures, people, **settings)
    first = call(again, exposures, people, first_event_only=True, **settings).estimates
    assert first["log_rr"].iloc[0] == pytest.approx(
        call(events.assign(day=events["day"].clip(upper=END - 1)), exposures, people,
             **settings).estimates["log_rr"].iloc[0]
    )  # fmt: skip
    two = exposures.assign(drug=np.arange(len(exposures)) % 2)
    with pytest.raises(steropes.DataError, match="is for one exposure"):
        call(events, two, people, exposure="drug", **settings)


def test_a_group_without_days_has_no_estimate_and_changes_nothing():
    tables = simulated(np.random.default_rng(6), 200, True)
    settings = {"risk_periods": (1, 25), "event_dependent": "exposure"}
    found = call(*tables, age=[CUT, 900], **settings).estimates
    assert np.isnan(found.loc["age from 900", "rr"])
    assert found.loc["age from 900", "note"] == "no case has a day in it"
    expected = call(*tables, age=[CUT], **settings).estimates
    np.testing.assert_allclose(found["log_rr"].iloc[:2], expected["log_rr"], rtol=1e-9)
