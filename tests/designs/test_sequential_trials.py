"""Sequences of trials equal analyses of expanded person-trial-periods, and R's TrialEmulation."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.designs.person_time_examples import ROLES, WEIGHTS, simulate

from designs.conftest import PUBLISHED
from steropes import CoxRegression, DataError, LogisticRegression, Surv
from steropes.designs.target_trials import (
    TargetTrial,
    columns_on_demand,
    marginal_risks,
    sequential_trial_rows,
    sequential_trials,
)
from steropes.designs.target_trials.emulation_diagnostics import of_weights
from steropes.designs.target_trials.marginal_risks import HazardModel
from steropes.designs.target_trials.person_time import read_person_time
from steropes.designs.target_trials.sequential_trial_estimates import Estimates, coefficients
from steropes.designs.target_trials.sequential_trial_rows import (
    quantile_of_weights,
    start_trials,
)
from steropes.designs.target_trials.sequential_trials import SequenceSettings


@pytest.fixture(scope="module")
def months():
    return simulate()


@pytest.fixture(scope="module")
def shuffled(months):
    """The same table in another order of rows."""
    return months.sample(frac=1, random_state=1)


def expand(d, per_protocol):
    """Person-trial-periods with their weights, by loops over people and trials."""
    d = d[d.groupby("id")["eligible"].cumsum() > 0].reset_index(drop=True)
    before = d.groupby("id")["treatment"].shift().fillna(0).to_numpy()
    used = np.ones(len(d), bool)
    if per_protocol:
        following = False
        for r in range(len(d)):
            same = r > 0 and d["id"][r] == d["id"][r - 1]
            used[r] = d["eligible"][r] == 1 or (same and following)
            kept = same and following and d["treatment"][r] == d["treatment"][r - 1]
            following = d["eligible"][r] == 1 or kept
    ratio = np.ones(len(d))
    for name, y in (("a", d["treatment"].to_numpy()), ("c", 1 - d["censored"].to_numpy())):
        for a in (0, 1):
            own = used & (before == a)
            p = [
                LogisticRegression().fit(d.loc[own, c], y[own]).predict_proba(d.loc[own, c])[:, 1]
                for c in (["age"], ["age", "x"])
            ]
            above, below = (np.where((y[own] == 1) | (name == "c"), q, 1 - q) for q in p)
            ratio[own] *= above / below
    rows = []
    for m in np.flatnonzero(d["eligible"] == 1):
        w = 1.0
        for j in range(m, len(d)):
            if d["id"][j] != d["id"][m]:
                break
            if per_protocol and d["treatment"][j] != d["treatment"][m]:
                break
            w *= ratio[j] if j > m else 1.0
            rows.append((d["id"][m], d["period"][m], j - m, d["treatment"][m],
                         d["treatment"][j], d["age"][m], d["outcome"][j], w))  # fmt: skip
    names = ["id", "trial", "k", "assigned", "current", "age", "y", "w"]
    return pd.DataFrame(rows, columns=names)


def columns(e, treatment):
    """The columns of the outcome model."""
    trial = e["trial"] - e["trial"].min()
    return pd.DataFrame(
        {"t": e["k"] + 1.0, "t^2": (e["k"] + 1.0) ** 2, "treatment": e[treatment] * 1.0,
         "trial": trial * 1.0, "trial^2": trial**2.0, "age": e["age"]}
    )  # fmt: skip


@pytest.mark.parametrize("effect", ["per-protocol", "as-treated"])
def test_weighted_model_is_that_of_expanded_rows(months, shuffled, effect):
    e = expand(months, effect == "per-protocol")
    X = columns(e, "assigned" if effect == "per-protocol" else "current")
    cap = np.quantile(e["w"], 0.95)
    reference = LogisticRegression().fit(X, e["y"], sample_weight=np.minimum(e["w"], cap))
    wanted = reference.summary(cluster=e["id"])
    found = sequential_trials(
        shuffled, **ROLES, eligible="eligible", covariates=["age"], effect=effect,
        truncate=0.95, **WEIGHTS,
    )  # fmt: skip
    model = found.models["outcome"]
    assert model.n_person_intervals_ == len(e)
    np.testing.assert_allclose(coefficients(model), wanted["coef"], rtol=1e-6)
    row = found.effects.iloc[0]
    assert np.log(row["estimate"]) == pytest.approx(wanted.loc["treatment", "coef"], rel=1e-6)
    assert row["se"] == pytest.approx(wanted.loc["treatment", "se"], rel=1e-6)
    weights = found.weights
    assert (weights["mean"] * weights["at_risk"]).sum() == pytest.approx(
        np.minimum(e["w"], cap).sum(), rel=1e-9
    )


def test_weighted_cox_model_is_that_of_expanded_rows(months, shuffled):
    e = expand(months, True)
    X = columns(e, "assigned").drop(columns=["t", "t^2"])

    y = Surv(e["k"] + 1, e["y"], e["k"])
    wanted = CoxRegression().fit(X, y, sample_weight=e["w"]).summary(cluster=e["id"])
    found = sequential_trials(
        shuffled, **ROLES, eligible="eligible", covariates=["age"], effect="per-protocol",
        model="cox", **WEIGHTS,
    ).effects.iloc[0]  # fmt: skip
    assert np.log(found["estimate"]) == pytest.approx(wanted.loc["treatment", "coef"], rel=1e-6)
    assert found["se"] == pytest.approx(wanted.loc["treatment", "se"], rel=1e-6)


def test_risks_are_averages_of_predictions_with_errors_by_the_delta_method(shuffled):
    found = sequential_trials(
        shuffled, **ROLES, eligible="eligible", covariates=["age"], effect_degree=1
    )
    settings = SequenceSettings(
        "intention-to-treat", None, None, "none", None, None, "logistic", None, None, 2, 2, 1,
        "all", 0, 0.95, 0, ("age",),
    )  # fmt: skip
    rows = read_person_time(
        shuffled, **ROLES, eligible="eligible", censored=None, covariates=["age"], measured={}
    )
    estimates = Estimates(settings, start_trials(rows, "intention-to-treat", None, None), None)
    model = found.models["outcome"]
    coef = coefficients(model)
    risk, slope = estimates.risks(coef)
    every = np.arange(len(estimates.trials.start))
    for s, a in enumerate((1.0, 0.0)):
        X = estimates.columns.table(every, np.full(len(every), a))
        np.testing.assert_allclose(risk[s], 1 - model.predict_survival(X).mean(axis=0), rtol=1e-12)
    step = 1e-6
    for q in range(len(coef)):
        moved = coef + step * (np.arange(len(coef)) == q)
        np.testing.assert_allclose(
            slope[:, :, q], (estimates.risks(moved, False)[0] - risk) / step, rtol=1e-4, atol=1e-5
        )
    V = model.vcov("robust", estimates.trials.person).to_numpy()
    g = slope[0, -1] - slope[1, -1]
    last = found.contrasts.query("measure == 'risk difference'").iloc[-1]
    assert last["se"] == pytest.approx(np.sqrt(g @ V @ g), rel=1e-9)


@pytest.mark.parametrize(
    ("effect", "truncate", "degree"),
    [("per-protocol", None, 1), ("as-treated", None, 0), ("per-protocol", 0.9, 0)],
)
def test_stacked_errors_are_derivatives_in_the_weights_of_people(months, effect, truncate, degree):
    """Influences of people equal changes of all models when the person counts a little more."""
    settings = SequenceSettings(
        effect, WEIGHTS["treatment_weights"], WEIGHTS["censoring_weights"], "numerator", truncate,
        None, "logistic", None, None, 2, 2, degree, "all", 0, 0.95, 0, ("age",), "stacked",
    )  # fmt: skip
    rows = read_person_time(
        months, **ROLES, eligible="eligible", censored="censored", covariates=["age", "x"],
        measured={},
    )  # fmt: skip
    trials = start_trials(rows, effect, None, None)
    first = settings.weights(rows, trials)

    def fit(people):
        own = people[rows.person]
        w = settings.weights(rows, trials, own)  # Limits of truncation are those of everybody.
        w = replace(w, lower=first.lower, upper=first.upper)
        return coefficients(Estimates(settings, trials, w).fit(own))

    estimates = Estimates(settings, trials, first)
    model = estimates.fit()
    influences = estimates.influences(model)
    one = int(influences["treatment"].abs().to_numpy().argmax())
    up, down = (fit(1 + h * (np.arange(rows.people) == one)) for h in (0.01, -0.01))
    wanted = (up - down) / 0.02
    np.testing.assert_allclose(influences.iloc[one], wanted, rtol=2e-3, atol=1e-4)
    known = model.vcov("robust", estimates.clusters)
    stacked = influences.T @ influences
    assert stacked.loc["treatment", "treatment"] != pytest.approx(
        known.loc["treatment", "treatment"], rel=1e-3
    )


def test_stacked_errors_are_in_the_tables(months):
    settings = {**ROLES, "eligible": "eligible", "covariates": ["age"], **WEIGHTS}
    found = sequential_trials(months, **settings, effect="per-protocol", errors="stacked")
    assert found.effects["errors"][0] == "clustered by person, with the models of the weights"
    for change, words in (
        ({"errors": "known"}, "errors must be"),
        ({"bootstrap": 5}, "two ways to errors"),
        ({"model": "cox"}, "logistic models by maximum likelihood"),
    ):
        kwargs = {**settings, "effect": "per-protocol", "errors": "stacked", **change}
        with pytest.raises(DataError, match=words):
            sequential_trials(months, **kwargs)
    with pytest.raises(DataError, match="there are no weights"):
        sequential_trials(months, **ROLES, errors="stacked")


def test_averages_over_a_grid_are_those_over_rows(monkeypatch):
    """Many rows whose hazards differ by one number, also with an effect that changes with time."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(5000, 3)), columns=list("abc")).assign(treatment=1.0)
    model = HazardModel(2, {"treatment": 1}, 30)
    coef, w = np.array([-4, 0.01, -1e-4, 0.5, -0.4, 0.3, -0.3, 0.01]), rng.random(5000)
    risk, slope = model.risks(X, coef, w)
    monkeypatch.setattr(marginal_risks, "MANY", len(X))
    direct = model.risks(X, coef, w)
    np.testing.assert_allclose(risk, direct[0], rtol=1e-11)
    np.testing.assert_allclose(slope, direct[1], rtol=1e-10, atol=1e-10)


def test_quantiles_of_weights_are_those_of_all_person_intervals(months):
    e = expand(months, True)
    settings = SequenceSettings(
        "per-protocol", *(WEIGHTS[k] for k in ("treatment_weights", "censoring_weights")), "none",
        None, None, "logistic", None, None, 2, 2, 0, "all", 0, 0.95, 0, ("age",),
    )  # fmt: skip
    rows = read_person_time(
        months, **ROLES, eligible="eligible", censored="censored", covariates=["age", "x"],
        measured={},
    )  # fmt: skip
    trials = start_trials(rows, "per-protocol", None, None)
    weights = settings.weights(rows, trials)
    for q in (0.0, 0.01, 0.37, 0.99, 1.0):
        found = quantile_of_weights(trials, weights, q)
        assert found == pytest.approx(np.quantile(e["w"], q), rel=1e-9)


def test_intention_to_treat_has_the_numbers_of_trialemulation():
    """22,710 rows in place of TrialEmulation's 1,939,053."""
    d = pd.read_csv(PUBLISHED / "trial_example.csv.gz")
    names = ["catvarA", "catvarB", "nvarA", "nvarB", "nvarC"]
    settings = SequenceSettings(
        "intention-to-treat", None, None, "none", None, None, "logistic", None, None, 2, 2, 0,
        "all", 0, 0.95, 0, tuple(names),
    )  # fmt: skip
    rows = read_person_time(
        d, **ROLES, eligible="eligible", censored=None, covariates=names, measured={}
    )
    trials = start_trials(rows, "intention-to-treat", None, None)
    assert len(trials.start) == 22_710
    assert trials.length.sum() == 1_939_053
    estimates = Estimates(settings, trials, None)
    model = estimates.fit()
    # TrialEmulation counts trials from the first period of the data and follow-up from 0.
    b, c = model.baseline_coef_, dict(zip(model.feature_names_in_, model.coef_, strict=True))
    shift = float(trials.trial.min() - 0)
    intercept = b.iloc[0] + b.iloc[1] + b.iloc[2] - shift * c["trial"] + shift**2 * c["trial^2"]
    assert intercept == pytest.approx(-3.61020871, rel=1e-6)
    assert c["treatment"] == pytest.approx(-0.28294506, abs=2e-8)
    assert c["nvarC"] == pytest.approx(-0.0401085695, rel=1e-6)
    errors = model.summary(kind="robust", cluster=estimates.clusters)["se"] * np.sqrt(
        503 / 502
    )  # as in R
    assert errors["treatment"] == pytest.approx(0.313784540, rel=1e-6)
    assert errors["nvarC"] == pytest.approx(0.00685418, rel=1e-5)
    # Its predict() with the times 0, 60 and 120 multiplies the survival of these intervals alone.
    every = np.arange(len(trials.start))
    risks = []
    for a in (1.0, 0.0):
        hazard = model.predict_hazard(estimates.columns.table(every, np.full(len(every), a)))
        risks.append(1 - np.cumprod(1 - hazard[:, [0, 60, 120]], axis=1).mean(axis=0))
    wanted = [-0.00110517, -0.00236555, -0.00373068]
    np.testing.assert_allclose(risks[0] - risks[1], wanted, atol=2e-8)


def test_bootstrap_fits_the_weights_of_each_draw_again(months):
    kwargs = {
        **ROLES, "eligible": "eligible", "covariates": ["age"], "effect": "per-protocol", **WEIGHTS,
        "bootstrap": 3, "random_state": 3,
    }  # fmt: skip
    one = sequential_trials(months, **kwargs)
    people = months["id"].to_numpy()
    ids = np.unique(people[months["eligible"] == 1])
    logs = []
    for stream in np.random.SeedSequence(3).spawn(3):
        drawn = ids[np.random.default_rng(stream).integers(0, len(ids), len(ids))]
        parts = [months[people == i].assign(id=j) for j, i in enumerate(drawn)]
        kwargs["bootstrap"] = 0
        found = sequential_trials(pd.concat(parts), **kwargs)
        logs.append(np.log(found.effects["estimate"].iloc[0]))
    assert one.effects["se"].iloc[0] == pytest.approx(np.std(logs, ddof=1), rel=1e-5)


def test_bootstrap_without_weights_draws_people(months):
    found = sequential_trials(
        months, **ROLES, eligible="eligible", covariates=["age"], bootstrap=60, random_state=1
    )
    plain = sequential_trials(months, **ROLES, eligible="eligible", covariates=["age"])
    assert found.effects["se"].iloc[0] == pytest.approx(plain.effects["se"].iloc[0], rel=0.3)
    assert found.effects["errors"].iloc[0] == "bootstrap of people, 60 draws"


def test_follow_up_and_trials_limit_the_person_trials(months):
    found = sequential_trials(
        months, **ROLES, eligible="eligible", covariates=["age"], follow_up=3, trials=(1, 2)
    )
    assert found.risks["time"].max() == 3
    e = expand(months, False)
    kept = e[(e["k"] < 3) & e["trial"].between(1, 2)]
    assert found.weights["at_risk"].sum() == len(kept)
    assert found.weights["events"].sum() == kept["y"].sum()


def test_ends_of_follow_up_are_counted_by_reason(months):
    found = sequential_trials(
        months, **ROLES, eligible="eligible", covariates=["age"], effect="per-protocol", **WEIGHTS
    )
    table = found.censoring
    reasons = ["outcome", "change of treatment", "lost", "end of follow-up"]
    first = table[table["time"] == 1]["at_risk"].sum()
    assert table[reasons].to_numpy().sum() == first
    assert table["outcome"].sum() == found.weights["events"].sum()


def test_specification_is_printed_as_a_table(months, tmp_path):
    trial = TargetTrial(eligibility="Adults of the register", contrast="Per-protocol effect")
    found = sequential_trials(
        months, **ROLES, eligible="eligible", covariates=["age"], protocol=trial
    )
    assert list(found.protocol.columns) == ["target_trial", "emulation"]
    assert found.protocol.loc["Eligibility criteria", "target_trial"] == "Adults of the register"
    assert "Randomly assigned" in found.protocol.loc["Assignment procedures", "target_trial"]
    assert "random given age" in found.protocol.loc["Assignment procedures", "emulation"]
    assert "(per protocol) is not estimated" in repr(found)
    assert found.plot().get_ylabel()
    page = tmp_path / "trial.html"
    found.write_report(page)
    text = page.read_text(encoding="utf-8")
    assert "Adults of the register" in text
    assert "Who starts which strategy when" in text
    starts = months[months["eligible"] == 1].groupby("period")["treatment"].agg(["sum", "count"])
    assert found.positivity["treatment"].sum() == starts["sum"].sum()
    assert "Who is censored when" in text


def test_extreme_weights_fail_by_name():
    weights = pd.DataFrame(
        {"at_risk": [10, 9], "mean": [1.0, 1.5], "largest": [1.0, 2000.0],
         "effective_size": [10.0, 2.0]}
    )  # fmt: skip
    passed = {name: passed for name, _, _, passed, _ in of_weights(weights, True)}
    assert passed == {
        "distance of the mean weight from one": False,
        "largest weight": False,
        "least effective share of those at risk": False,
    }


def test_numerators_that_change_with_time_fail(months):
    found = sequential_trials(
        months, **ROLES, eligible="eligible", covariates=["x"], effect="per-protocol",
        treatment_weights=(["x"], ["x", "age"]),
    )  # fmt: skip
    checks = found.diagnostics.set_index("diagnostic")
    assert not checks.loc["numerators that change with time", "passed"]


def broken(change):
    """A table with one fault."""
    d = simulate(n=40)
    return change(d)


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        (lambda d: pd.concat([d, d.iloc[:1]]), {}, "same person and period"),
        (lambda d: d.drop(index=d.index[d["period"] == 1][0]), {}, "between them is missing"),
        (lambda d: d.assign(treatment=0), {}, "Nobody follows the strategy 'treatment'"),
        (lambda d: d.assign(outcome=1), {}, "rows after outcome = 1"),
        (lambda d: d.assign(treatment=d["treatment"] * 2), {}, "must be 0 or 1"),
        (lambda d: d.assign(eligible=0), {"eligible": "eligible"}, "Nobody is ever eligible"),
        (
            lambda d: d.assign(when=d["period"] + 1),
            {"covariates": ["x"], "measured": {"x": "when"}},
            "measured after the treatment",
        ),
        (lambda d: d.assign(x=np.nan), {"covariates": ["x"]}, "'x' has missing values"),
        (lambda d: d.assign(x=pd.Timestamp("2020")), {"covariates": ["x"]}, "holds dates"),
        (lambda d: d, {"effect": "per-protocol"}, "needs treatment_weights"),
        (lambda d: d, {"treatment_weights": ([], ["x"])}, "intention-to-treat effect; leave it"),
        (
            lambda d: d,
            {"effect": "per-protocol", "treatment_weights": (["age"], ["x"])},
            "in the numerator of weights but not among covariates",
        ),
        (lambda d: d, {"censoring_weights": ([], ["x"])}, "needs censored="),
        (lambda d: d, {"truncate": 0.99}, "no effect without weights"),
        (lambda d: d, {"covariates": ["treatment"]}, "has another role"),
        (lambda d: d, {"bootstrap": 1}, "a number of draws"),
    ],
)
def test_faults_are_named(change, settings, message):
    with pytest.raises(DataError, match=message):
        sequential_trials(broken(change), **{**ROLES, **settings})


@pytest.mark.parametrize("effect", ["intention-to-treat", "per-protocol"])
def test_columns_on_demand_give_the_same_as_a_table(months, monkeypatch, effect):
    """Blocks of rows that are computed when they are used, also in draws of people."""
    kwargs = {**ROLES, "eligible": "eligible", "covariates": ["age"], "effect": effect}
    kwargs |= WEIGHTS | {"truncate": 0.99} if effect == "per-protocol" else {}
    before = months.copy()
    whole = [sequential_trials(months, **kwargs, bootstrap=b, random_state=1) for b in (0, 4)]
    monkeypatch.setattr(columns_on_demand, "ROWS_AT_ONCE", 300)
    monkeypatch.setattr(columns_on_demand, "SPARSE", 0.0)
    monkeypatch.setattr(columns_on_demand, "MOST_STORED", 0)
    monkeypatch.setattr(sequential_trial_rows, "AT_ONCE", 500)  # quantiles by histograms
    blocks = [sequential_trials(months, **kwargs, bootstrap=b, random_state=1) for b in (0, 4)]
    for one, other in zip(whole, blocks, strict=True):
        for name in ("effects", "risks", "contrasts", "weights"):
            pd.testing.assert_frame_equal(
                getattr(one, name), getattr(other, name), rtol=1e-5, atol=1e-7
            )
    pd.testing.assert_frame_equal(months, before)
    with pytest.raises(DataError, match="without its data"):
        blocks[0].models["outcome"].inference.bootstrap(2)
    assert blocks[0].models["outcome"].vcov("model").shape[0] > 3


def test_draws_with_models_of_the_user_are_those_of_maximum_likelihood(months):
    kwargs = {**ROLES, "eligible": "eligible", "covariates": ["age"], "effect": "per-protocol"}
    kwargs |= WEIGHTS | {"truncate": (0.02, 0.98), "bootstrap": 4}
    one = sequential_trials(months, **kwargs)
    other = sequential_trials(months, **kwargs, weight_model=LogisticRegression())
    pd.testing.assert_frame_equal(one.effects, other.effects, rtol=1e-4)
    pd.testing.assert_frame_equal(one.risks, other.risks, rtol=1e-4)
