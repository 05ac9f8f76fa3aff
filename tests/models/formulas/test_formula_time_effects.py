"""Effects that change with time against fits to split data, in formulas and settings."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from steropes import (
    CoxRegression,
    CrossValidation,
    DataError,
    Laplace,
    LogisticRegression,
    Normal,
    PooledLogisticRegression,
    SeparationError,
    ShardedDesign,
    Surv,
)
from steropes.backends import host_backend

# Devices refuse effects that are functions of time.
pytestmark = pytest.mark.host

OUTCOME = "Surv(time, dead) ~ "
LATE = "Surv(time, dead, entry=start) ~ "


@pytest.fixture
def people(rng):
    n = 120
    x = rng.normal(size=n)
    time = np.ceil(rng.exponential(np.exp(-0.5 * x)) * 40) + 1  # with ties
    return pd.DataFrame(
        {
            "x": x,
            "age": rng.normal(60, 10, n),
            "sex": rng.choice(["f", "m"], n),
            "site": rng.choice(list("ab"), n),
            "time": time,
            "start": np.floor(time * rng.uniform(0, 0.6, n)),
            "dead": (rng.random(n) < 0.8).astype(int),
        }
    )


def split(people, cuts, start=None):
    """One row for each person and period between cuts, as R's survSplit."""
    edges = np.r_[-np.inf, np.unique(cuts), np.inf]
    rows = []
    for i, row in enumerate(people.itertuples()):
        begin = 0.0 if start is None else getattr(row, start)
        for a, b in zip(edges[:-1], edges[1:], strict=True):
            if row.time > a and begin < b:
                rows.append(row._asdict() | {
                    "id": i, "a": max(a, begin), "b": min(b, row.time), "period": a,
                    "event": int(row.dead and row.time <= b),
                })  # fmt: skip
    return pd.DataFrame(rows)


def of_split(table, columns, ties="efron", **fit):
    return CoxRegression(ties=ties).fit(columns, Surv(table.b, table.event, entry=table.a), **fit)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("outcome", [OUTCOME, LATE])
def test_steps_are_the_interactions_with_periods_of_split_data(outcome, ties, people):
    model = CoxRegression.from_formula(
        f"{outcome} step(x, [20, 60]) + age + step(sex, 30)", people, ties=ties
    )
    table = split(people, [20, 30, 60], "start" if outcome == LATE else None)
    late, male = table.period >= 30, (table.sex == "m") * 1.0
    expected = of_split(table, np.c_[
        table.x * (table.period < 20), table.x * ((table.period >= 20) & (table.period < 60)),
        table.x * (table.period >= 60), table.age, male * ~late, male * late,
    ], ties)  # fmt: skip
    assert model.coef_names_ == [
        "x@(0,20]", "x@(20,60]", "x@(60,inf)", "age", "sex[T.m]@(0,30]", "sex[T.m]@(30,inf)",
    ]  # fmt: skip
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.vcov(), expected.vcov(), rtol=1e-5, atol=1e-9)
    assert model.log_likelihood_ == pytest.approx(expected.log_likelihood_, rel=1e-10)
    assert model.converged_


@pytest.mark.sampled
@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("outcome", [OUTCOME, LATE])
def test_effects_linear_in_log_time_are_those_of_data_split_at_each_event(outcome, ties, people):
    model = CoxRegression.from_formula(
        f"{outcome} tt(x, 'log') + age + tt(sex, 'log') + strata(site)", people, ties=ties
    )
    events = people.time[people.dead == 1]
    table = split(people, events, "start" if outcome == LATE else None)
    male, log = (table.sex == "m") * 1.0, np.log(table.b)
    columns = np.c_[table.x, table.age, male, table.x * log, male * log]
    expected = of_split(table, columns, ties, strata=table.site)
    assert model.coef_names_ == ["x", "age", "sex[T.m]", "x:log(t)", "sex[T.m]:log(t)"]
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(model.vcov(), expected.vcov(), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(
        model.vcov("robust"), expected.vcov("robust", cluster=table.id), rtol=1e-5, atol=1e-8
    )
    assert model.log_likelihood_ == pytest.approx(expected.log_likelihood_, rel=1e-10)


def test_a_fit_of_lifelines_to_split_data_is_the_same(people):
    lifelines = pytest.importorskip("lifelines")
    untied = people.assign(time=people.time + np.arange(len(people)) / 1000)
    table = split(untied, untied.time[untied.dead == 1])
    table["xlog"] = table.x * np.log(table.b)
    other = lifelines.CoxTimeVaryingFitter().fit(
        table[["id", "a", "b", "event", "x", "age", "xlog"]],
        id_col="id", start_col="a", stop_col="b", event_col="event",
        fit_options={"precision": 1e-10},
    )  # fmt: skip
    model = CoxRegression.from_formula(f"{OUTCOME} tt(x, 'log') + age", untied)
    expected = other.params_[["x", "age", "xlog"]]
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-6, atol=1e-7)


def test_any_function_of_time_as_of_r(people):
    """R's tt = function(x, t, ...) x * sqrt(t + 5)."""
    settings = {"x": lambda t: np.sqrt(t + 5)}
    X, y = people[["x", "age"]], Surv(people.time, people.dead)
    model = CoxRegression(time_varying=settings).fit(X, y)
    table = split(people, people.time[people.dead == 1])
    columns = np.c_[table.x, table.age, table.x * np.sqrt(table.b + 5)]
    assert model.coef_names_ == ["x", "age", "x:f(t)"]
    np.testing.assert_allclose(model.coef_, of_split(table, columns).coef_, rtol=1e-6)


def test_predictions_use_the_effect_at_the_time(people):
    model = CoxRegression.from_formula(f"{OUTCOME} tt(x, 'log') + age", people)
    b, age, c = model.coef_
    for time in (0.5, 17.3, 500.0):
        expected = people.x * (b + c * np.log(time)) + people.age * age
        np.testing.assert_allclose(model.predict(people, time=time), expected, rtol=1e-10)
    times = np.array([5.0, 20.0, 60.0])
    events = np.unique(people.time[people.dead == 1])
    log = np.log(events)
    eta = people.x.to_numpy()[:, None] * (b + c * log) + people.age.to_numpy()[:, None] * age
    risk = np.exp(eta)
    step = []
    for k, t in enumerate(events):
        tied = np.flatnonzero((people.time == t) & (people.dead == 1))
        at, own = risk[people.time >= t, k].sum(), risk[tied, k].sum()
        step.append(sum(1 / (at - j / len(tied) * own) for j in range(len(tied))))
    until = [np.exp(-(risk[:, events <= t] * np.array(step)[events <= t]).sum(1)) for t in times]
    np.testing.assert_allclose(model.predict_survival(people, times), np.c_[*until], rtol=1e-6)
    curve = model.curves.survival(people.head(3), times)
    np.testing.assert_allclose(curve["survival"], np.c_[*until][:3].ravel(), rtol=1e-6)


def test_errors_of_curves_are_those_of_steps_with_the_same_effects(people):
    """With one event time in each period, a function is a step function with given values."""
    few = people.assign(time=np.where(people.time <= 30, 20.0, 50.0))
    log = CoxRegression.from_formula(f"{OUTCOME} tt(x, 'log')", few, ties="breslow")
    step = CoxRegression.from_formula(f"{OUTCOME} step(x, 20)", few, ties="breslow")
    a, b = log.coef_
    np.testing.assert_allclose(a + b * np.log([20, 50]), step.coef_, rtol=1e-6)
    pd.testing.assert_frame_equal(
        log.curves.survival(few.head(4), [20, 50]), step.curves.survival(few.head(4), [20, 50]),
        rtol=1e-5,
    )  # fmt: skip


def test_priors_folds_draws_profiles_and_copies(people):
    formula = f"{OUTCOME} tt(x, 'log') + age + step(sex, 30)"
    model = CoxRegression.from_formula(formula, people, prior=Normal(0.05, exclude=["age"]))
    table = split(people, np.r_[30.0, people.time[people.dead == 1]])
    late, male = table.period >= 30, (table.sex == "m") * 1.0
    columns = np.c_[table.x, table.age, male * ~late, male * late, table.x * np.log(table.b)]
    expected = CoxRegression(prior=Normal(0.05, exclude=[1])).fit(
        columns, Surv(table.b, table.event, entry=table.a)
    )
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-8)
    chosen = CoxRegression.from_formula(
        formula, people, prior=Laplace(), cv=CrossValidation(3, random_state=1)
    )
    assert chosen.converged_
    flat = CoxRegression.from_formula(formula, people)
    profile = flat.confint("x:log(t)", method="profile").iloc[0]
    wald = flat.confint("x:log(t)").iloc[0]
    np.testing.assert_allclose(profile, wald, atol=0.1)
    draws = flat.inference.bootstrap(5, random_state=1)
    assert np.isfinite(draws.coef).all()
    again = pickle.loads(pickle.dumps(flat))
    np.testing.assert_array_equal(again.predict(people, time=7), flat.predict(people, time=7))
    np.testing.assert_array_equal(clone(flat).fit(people).coef_, flat.coef_)


def test_blocks_of_rows_have_the_same_effects(people):
    X, y = people[["x", "age"]], Surv(people.time, people.dead)
    model = CoxRegression(time_varying={"x": "log", "age": [30.0]})
    blocks = ShardedDesign.from_blocks([X[:50], X[50:]])
    np.testing.assert_allclose(model.fit(blocks, y).coef_, clone(model).fit(X, y).coef_, rtol=1e-6)


def test_units_of_time_and_of_columns(people):
    y = Surv(people.time, people.dead)
    model = CoxRegression(time_varying={"x": lambda t: t}).fit(people[["x", "age"]], y)
    other = CoxRegression(time_varying={"x": lambda t: t}).fit(
        people[["x", "age"]] * [1e-3, 1.0], Surv(people.time * 365.25, people.dead)
    )
    np.testing.assert_allclose(other.coef_, model.coef_ * [1e3, 1.0, 1e3 / 365.25], rtol=1e-6)
    assert other.converged_


def test_terms_with_expressions_interactions_and_splines(people):
    model = CoxRegression.from_formula(
        f"{OUTCOME} step(x * age, 30) + step(np.log(age), [30]):sex + tt(rcs(x, 3), 'log')",
        people, prior=Normal(),
    )  # fmt: skip
    assert model.coef_names_ == [
        "I(x * age)@(0,30]", "I(x * age)@(30,inf)", "x", "x'",
        "np.log(age):sex[f]@(0,30]", "np.log(age):sex[f]@(30,inf)",
        "np.log(age):sex[m]@(0,30]", "np.log(age):sex[m]@(30,inf)", "x:log(t)", "x':log(t)",
    ]  # fmt: skip


def test_pooled_models_take_polynomials_of_the_interval(people):
    model = PooledLogisticRegression.from_formula(
        f"{OUTCOME} tt(x, 2) + age", people, interval=20.0
    )
    expected = PooledLogisticRegression(interval=20.0, time_varying={"x": 2}).fit(
        people[["x", "age"]], Surv(people.time, people.dead)
    )
    assert model.coef_names_ == ["x", "age", "x:t", "x:t^2"]
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-8)


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ("x + step(x, [20])", "x with a constant effect and with one that changes"),
        ("tt(x, 'log') + x", "x with a constant effect and with one that changes"),
        ("step(x)", r"step\(x\) needs two arguments"),
        ("step(x, age)", "must be a constant"),
        ("step(x:age, [20])", r"'step\(x:age, \[20\]\)' in the formula has a colon within"),
        ("tt(x ++, 'log')", "is not an expression of Python"),
        ("step(x, [20]) + tt(x, 'log')", "two effects of x"),
        ("step(x, [20]):step(age, [20])", "step.. or tt.. twice"),
        ("tt(x, [20])", "no list of times: write step"),
        ("tt(x, 'square')", "takes 'log', a function of time or cut points, not 'square'"),
        ("step(x, [30, 20])", "must ascend"),
        ("step(open('f'), [20])", "open"),
    ],
)
def test_terms_that_make_no_sense_are_refused(terms, why, people):
    with pytest.raises(DataError, match=why):
        CoxRegression.from_formula(OUTCOME + terms, people)


def test_models_and_settings_without_such_effects_refuse_them(people):
    with pytest.raises(DataError, match="LogisticRegression has no effects that change with time"):
        LogisticRegression.from_formula("dead ~ step(x, [20])", people)
    with pytest.raises(DataError, match="both have 'x'"):
        CoxRegression.from_formula(f"{OUTCOME} tt(x, 'log')", people, time_varying={"x": [20]})
    early = people.assign(time=people.time - people.time.min())
    with pytest.raises(DataError, match=r"log\(t\) for 'x' is not finite at the event time 0"):
        CoxRegression.from_formula(f"{OUTCOME} tt(x, 'log')", early.assign(dead=1))
    with pytest.raises(DataError, match="device='cpu'"):
        CoxRegression.from_formula(f"{OUTCOME} tt(x, 'log')", people, device="torch-cpu")
    X, y = people[["x"]], Surv(people.time, people.dead)
    with pytest.raises(DataError, match="for 'x' returns complex numbers"):
        CoxRegression(time_varying={"x": lambda t: np.sqrt(t + 0j)}).fit(X, y)


def test_a_device_that_is_chosen_for_functions_of_time_is_the_cpu(people, monkeypatch):
    works = []

    def record(device, n_jobs, work):
        works.append(work)
        return host_backend(n_jobs)

    monkeypatch.setattr("steropes.models.fitting.fit_steps.get_backend", record)
    formula = f"{OUTCOME} tt(x, 'log')"
    found = CoxRegression.from_formula(formula, people, device="auto").coef_
    assert set(works) == {0.0}  # below the least work for a GPU
    np.testing.assert_array_equal(found, CoxRegression.from_formula(formula, people).coef_)


def test_functions_that_have_no_value_are_refused(people):
    X, y = people[["x", "age"]], Surv(people["time"], people["dead"])
    changing = CoxRegression(time_varying={"x": "log"})
    with pytest.raises(DataError, match="y has no events"):
        changing.fit(X, Surv(people["time"], 0 * people["dead"]))
    with pytest.raises(SeparationError, match=r"'x:f\(t\)' can be written as a combination of 'x'"):
        CoxRegression(time_varying={"x": lambda t: np.ones(len(t))}).fit(X, y)
    model = changing.fit(X, y)
    for time in (0.0, -1.0):
        with pytest.raises(DataError, match=r"'x:log\(t\)' is not finite at the time"):
            model.predict(X, time=time)
