"""Clones as weights equal expanded clones, and R's survivalCCW."""

import numpy as np
import pandas as pd
import pytest

from designs.conftest import PUBLISHED
from steropes import CoxRegression, DataError, SeparationError, Surv
from steropes.designs.target_trials import clone_censor_weight
from steropes.designs.target_trials.cloned_people import clones_of, log_hazard_ratio

ROLES = {"time": "timetoevent", "event": "event", "start": "timetoexposure"}


@pytest.fixture(scope="module")
def people():
    return pd.read_csv(PUBLISHED / "clones.csv")


@pytest.fixture(scope="module")
def found(people):
    return clone_censor_weight(people, **ROLES, covariates=["cov1", "cov2"], grace=100, bootstrap=0)


def survival(found, strategy, time):
    """Survival under a strategy."""
    own = found.risks[(found.risks["strategy"] == strategy) & (found.risks["time"] <= time)]
    return 1 - own["risk"].iloc[-1]


def test_both_strategies_have_the_numbers_of_survivalccw(found):
    """Of R's run with an own id for each person.

    Three ids of its data are of two people each, and its table of intervals gives the start of one
    to the other: with these ids R has 0.76673790 and 0.16524487, and the log ratio 0.21252467.
    """
    assert survival(found, "start by 100", 180) == pytest.approx(0.69669165428, abs=1e-10)
    assert survival(found, "start by 100", 360) == pytest.approx(0.05454202308, abs=1e-10)
    assert survival(found, "no start by 100", 180) == pytest.approx(0.76628465056, abs=1e-10)
    assert survival(found, "no start by 100", 360) == pytest.approx(0.16501844651, abs=1e-10)
    assert np.log(found.effects["estimate"][0]) == pytest.approx(0.2117660659, abs=1e-9)
    assert found.weights["largest"].max() == pytest.approx(2.931628, abs=1e-6)


def test_unweighted_hazard_ratio_is_that_of_stacked_clones(people):
    start = people["timetoexposure"].fillna(np.inf).to_numpy()
    time, event = people["timetoevent"].to_numpy(float), people["event"].to_numpy()
    one, other = (clones_of(time, event, start, w) for w in ((0, 100), (100, np.inf)))
    times, ones = np.unique(time[event == 1]), np.ones(len(time))
    none = pd.DataFrame(index=range(len(time)))
    # Without covariates all clones at risk have the same weight, which cancels in the curves.
    counts = [c.counts(none, times, ones) for c in (one, other)]
    for c, of in zip(counts, (one, other), strict=True):
        at_risk = np.array([(of.time >= t).sum() for t in times])
        np.testing.assert_allclose(c.events * at_risk, c.at_risk * [
            ((of.time == t) & of.event).sum() for t in times
        ])  # fmt: skip
    plain = [type(c)(times, c.tied, c.rows, c.tied, c.rows, c.rows, c.rows) for c in counts]
    assert log_hazard_ratio(*plain) == pytest.approx(0.20680718, abs=1e-8)


def expand(people, window):
    """Counting-process rows of the clones of one strategy with weights, by loops over people."""
    start = people["timetoexposure"].fillna(np.inf).to_numpy()
    time, event = people["timetoevent"].to_numpy(float), people["event"].to_numpy()
    low, high = window
    end, gone = time.copy(), np.zeros(len(time), bool)
    for i in range(len(time)):
        if low > 0 and start[i] <= low:
            end[i], gone[i] = start[i], True
        elif start[i] > high and time[i] > high:
            end[i], gone[i] = high, True
    X = people[["cov1", "cov2"]]
    model = CoxRegression().fit(X, Surv(end, gone))
    steps = model.curves.baseline_hazard(level=None)
    risk = np.exp(X.to_numpy() @ model.coef_)
    cuts = np.unique(np.append(time, steps["time"]))
    rows = []
    for i in range(len(time)):
        before = 0.0
        for t in cuts[cuts <= end[i]]:
            H = steps.loc[steps["time"] < t, "hazard"].sum()
            rows.append((before, t, int(event[i] and not gone[i] and t == end[i]),
                         np.exp(H * risk[i])))  # fmt: skip
            before = t
    return pd.DataFrame(rows, columns=["entry", "time", "event", "w"])


def test_curves_and_hazard_ratio_are_those_of_expanded_clones(people, found):
    some = people.iloc[:60]
    found = clone_censor_weight(some, **ROLES, covariates=["cov1", "cov2"], grace=60, bootstrap=0)
    parts = [expand(some, w).assign(arm=a) for a, w in ((1.0, (0, 60)), (0.0, (60, np.inf)))]
    e = pd.concat(parts)
    fit = CoxRegression().fit(
        e[["arm"]], Surv(e["time"], e["event"], e["entry"]), sample_weight=e["w"]
    )
    assert np.log(found.effects["estimate"].iloc[0]) == pytest.approx(fit.coef_[0], abs=1e-7)
    for arm, name in ((1.0, "start by 60"), (0.0, "no start by 60")):
        own, S = e[e["arm"] == arm], 1.0
        for t in np.unique(own["time"][own["event"] == 1]):
            at_risk = own[own["time"] == t]
            S *= 1 - (at_risk["w"] * at_risk["event"]).sum() / at_risk["w"].sum()
            if t <= found.risks["time"].max():
                assert survival(found, name, t) == pytest.approx(S, abs=1e-9)


def test_several_windows_are_compared_with_the_last(people):
    result = clone_censor_weight(
        people, **ROLES, covariates=["cov2"], bootstrap=3,
        strategies={"early": (0, 40), "late": (40, 100), "none": (100, np.inf)},
    )  # fmt: skip
    assert result.effects["term"].tolist() == ["early against none", "late against none"]
    assert np.isfinite(result.effects["se"]).all()
    ratios = result.contrasts.query("measure == 'risk ratio'")
    known = ratios["se"].notna()  # ratios need events in all draws, which the first days lack
    assert (ratios["time"][known].min() > ratios["time"][~known]).all()
    assert known.mean() > 0.5
    assert result.contrasts.drop(ratios.index)["se"].notna().all()
    counts = result.censoring[["outcome", "deviation", "lost"]].to_numpy().sum()
    assert counts == 3 * len(people)
    assert "intention to treat) is not estimated" in repr(result)
    started = result.positivity["treatment"]
    assert started.sum() == people["timetoexposure"].notna().sum()
    first = people["timetoevent"].max() / 20
    late = people["timetoexposure"].isna() | (people["timetoexposure"] > first)
    assert result.positivity["no_treatment"][0] == late.sum()
    assert result.protocol.loc["Treatment strategies", "emulation"].startswith("early: start")


def test_draws_depend_on_the_seed_alone(people):
    kwargs = {**ROLES, "covariates": ["cov2"], "grace": 100, "bootstrap": 3, "random_state": 5}
    one, two = (clone_censor_weight(people, **kwargs) for _ in range(2))
    pd.testing.assert_frame_equal(one.risks, two.risks)


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        (lambda d: d.assign(timetoexposure=np.nan), {}, "Nobody follows the strategy 'start by"),
        (lambda d: d.assign(timetoexposure=5.0), {}, "Nobody follows the strategy 'no start by"),
        (lambda d: d.assign(timetoexposure=400.0), {}, "after the end of their follow-up"),
        (lambda d: d.assign(timetoexposure=-1.0), {}, "before time zero"),
        (lambda d: d.assign(timetoevent=0.0), {}, "positive times"),
        (lambda d: d.assign(cov1=np.nan), {}, "'cov1' has missing values"),
        (lambda d: d.assign(day=3), {"measured": {"cov1": "day"}}, "measured after time zero"),
        (lambda d: d, {"grace": None}, "Give either grace"),
        (lambda d: d, {"grace": -1.0}, "grace must be"),
        (lambda d: d, {"bootstrap": 1}, "a number of draws"),
        (lambda d: d, {"truncate": 0.5}, "largest weight"),
        (lambda d: d, {"horizon": 1.0}, "Nobody has the event by horizon"),
    ],
)
def test_faults_are_named(people, change, settings, message):
    kwargs = {**ROLES, "covariates": ["cov1"], "grace": 100.0, "bootstrap": 0, **settings}
    with pytest.raises(DataError, match=message):
        clone_censor_weight(change(people), **kwargs)


def test_separated_deviations_are_refused_by_name(people):
    d = people.assign(cov1=(people["timetoexposure"] <= 100) * 1.0)
    with pytest.raises(SeparationError, match="model of deviation"):
        clone_censor_weight(d, **ROLES, covariates=["cov1"], grace=100, bootstrap=0)


def test_weights_above_a_thousand_fail_and_those_of_people_who_left_may_be_infinite():
    rng = np.random.default_rng(2)
    z = rng.normal(size=1000)
    start = rng.exponential(100 * np.exp(2 * z)).round(1) + 0.1
    days = rng.exponential(300, 1000).round(1) + 0.1
    people = pd.DataFrame({"z": z, "time": np.minimum(days, 365), "died": (days < 365) * 1})
    people["start"] = np.where(start < people["time"], start, np.nan)
    found = clone_censor_weight(
        people, time="time", event="died", start="start", covariates=["z"], bootstrap=0,
        strategies={"early": (0, 100), "never": (200, np.inf)},
    )  # fmt: skip
    row = found.diagnostics.set_index("diagnostic").loc["largest weight"]
    assert row["value"] == found.weights["largest"].max() > 1000
    assert not row["passed"]
    assert "truncate" in row["note"]
