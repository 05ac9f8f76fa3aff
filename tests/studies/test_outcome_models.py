"""Outcome models of studies: against each other, against the library, and over weights and sets."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

import steropes as st
from steropes.designs import OutcomeModel, estimate_effect
from steropes.designs.effects import curve_table, detectable_ratio
from steropes.designs.effects.two_group_cox import TwoGroupCox
from steropes.errors import DataError
from steropes.studies.covariates import Features


def population(n=300, seed=1, effect=0.5):
    rng = np.random.default_rng(seed)
    treated = rng.integers(0, 2, n)
    sick = rng.integers(0, 2, n)
    hazard = 0.02 * np.exp(effect * treated + 0.7 * sick)
    event_time, end = np.ceil(rng.exponential(1 / hazard)), rng.integers(20, 60, n)
    happened = (event_time <= end).astype(int)
    people = pd.DataFrame(
        {
            "person_id": np.arange(n) + 1000,
            "treated": treated,
            "time": np.minimum(event_time, end).astype(float),
            "event": happened,
            "outcomes": happened * rng.integers(1, 3, n),
            "days_at_risk": end,
        }
    )
    rows = np.flatnonzero(sick).astype(np.int32)
    table = pd.DataFrame(
        {
            "covariate_id": [8532001],
            "name": ["gender: Female"],
            "analysis_id": [1],
            "concept_id": [8532],
            "people": [len(rows)],
            "largest": [1.0],
            "binary": [True],
        }
    )
    features = Features(n, np.array([0, len(rows)]), rows, np.ones(len(rows), np.float32), table)
    return people, features, sick


PEOPLE, FEATURES, SICK = population()
WEIGHTS = np.random.default_rng(2).uniform(0.5, 2, len(PEOPLE))
SETS = np.random.default_rng(3).integers(0, 40, len(PEOPLE))


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("sets", [None, SETS])
@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_the_likelihood_of_two_groups_is_coxs(ties, weights, sets):
    y = st.Surv(PEOPLE["time"].to_numpy(), PEOPLE["event"].to_numpy())
    x = PEOPLE[["treated"]].astype(float)
    cox = st.CoxRegression(ties=ties).fit(x, y, sample_weight=weights, strata=sets)
    groups = TwoGroupCox.of(PEOPLE["time"], PEOPLE["event"], PEOPLE["treated"], weights, sets, ties)
    assert groups.maximum() == pytest.approx(float(cox.coef_[0]), abs=1e-9)
    points = np.array([-2.0, -0.3, 0.0, 1.1])
    wanted = cox.inference.profile("treated", points)
    apart = groups.log_likelihood(points) - wanted["log_likelihood"]
    assert np.ptp(apart) < 1e-8
    np.testing.assert_allclose(groups.gradient(points), wanted["gradient"], atol=1e-8)
    limits = cox.confint(["treated"], method="profile").iloc[0]
    np.testing.assert_allclose(groups.interval(), limits, atol=1e-5)


def test_weights_are_repeated_rows():
    counts = np.random.default_rng(4).integers(0, 3, len(PEOPLE))
    again = PEOPLE.loc[PEOPLE.index.repeat(counts)]
    one = TwoGroupCox.of(PEOPLE["time"], PEOPLE["event"], PEOPLE["treated"], counts, ties="breslow")
    two = TwoGroupCox.of(again["time"], again["event"], again["treated"], ties="breslow")
    assert one.maximum() == pytest.approx(two.maximum(), abs=1e-10)
    np.testing.assert_allclose(one.interval(), two.interval(), atol=1e-8)


def test_events_in_one_arm_alone_leave_a_limit_on_one_side():
    people = PEOPLE.assign(event=PEOPLE["event"] * PEOPLE["treated"])
    found = estimate_effect(people)
    assert "nobody in the comparator arm had the outcome" in found.note
    assert math.isnan(found.log_rr)
    assert math.isinf(found.upper)
    assert math.isfinite(found.lower)
    groups = TwoGroupCox.of(people["time"], people["event"], people["treated"])
    drop = groups.log_likelihood([30.0, found.lower])
    assert drop[0] - drop[1] == pytest.approx(3.841458820694124 / 2, abs=1e-6)


ONE_ARM = PEOPLE.assign(
    event=PEOPLE["event"] * PEOPLE["treated"], outcomes=PEOPLE["outcomes"] * PEOPLE["treated"]
)


def log_likelihood(kind, people, log_rr):
    """The profile log-likelihood over the intercept, from the textbook."""
    treated = people["treated"].to_numpy()

    def lost(intercept):
        eta = intercept + log_rr * treated
        if kind == "logistic":
            y = people["event"].to_numpy()
            return float(np.sum(np.logaddexp(0, eta) - y * eta))
        y, days = people["outcomes"].to_numpy(), people["days_at_risk"].to_numpy()
        return float(np.sum(days * np.exp(eta) - y * eta))

    return -optimize.minimize_scalar(lost, bounds=(-60, 40), options={"xatol": 1e-10}).fun


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_outcomes_of_one_arm_alone_are_infinite_with_weights_whose_sums_are_rounded(ties):
    """Before, the estimate was the end of the search, and its error divided by zero."""
    for seed in range(40):
        rng, n = np.random.default_rng(seed), 60
        treated = (rng.random(n) < 0.6).astype(int)
        event = (treated == 1) & (rng.random(n) < 0.2)
        event[np.flatnonzero(treated)[0]] = True
        time = np.where(event, rng.integers(1, 6, n), 30.0)
        weights = rng.choice([0.71304348, 0.59326981, 1.25085064, 0.34386013], n)
        for arm, best in ((treated, math.inf), (1 - treated, -math.inf)):
            assert TwoGroupCox.of(time, event, arm, weights, None, ties).maximum() == best


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["logistic", "poisson"])
@pytest.mark.parametrize("arm", ["target", "comparator"])
def test_the_limit_of_an_arm_without_outcomes_is_where_the_likelihood_has_fallen(kind, arm):
    people = ONE_ARM.assign(
        treated=ONE_ARM["treated"] if arm == "comparator" else 1 - ONE_ARM["treated"]
    )
    sign = 1 if arm == "comparator" else -1
    found = estimate_effect(people, OutcomeModel(kind))
    assert f"nobody in the {arm} arm had the outcome" in found.note
    assert f"no finite {'odds' if kind == 'logistic' else 'rate'} ratio" in found.note
    assert math.isnan(found.log_rr)
    limit, end = (found.lower, found.upper) if sign > 0 else (found.upper, found.lower)
    assert end == sign * math.inf
    fallen = log_likelihood(kind, people, sign * 35.0) - log_likelihood(kind, people, limit)
    assert fallen == pytest.approx(3.841458820694124 / 2, abs=1e-4)
    profile = found.profile.set_index("log_rr")["log_likelihood"]
    assert profile.max() == 0
    of = [x for x in profile.index if abs(x) < 8]
    wanted = [
        log_likelihood(kind, people, x) - log_likelihood(kind, people, sign * 35.0) for x in of
    ]
    np.testing.assert_allclose(profile[of], wanted, atol=1e-5)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "model",
    [
        OutcomeModel("logistic", stratified=True),
        OutcomeModel("poisson", stratified=True, covariates=True, variance=0.1),
        OutcomeModel("poisson", covariates=True, folds=3),
        OutcomeModel("fine-gray"),
        OutcomeModel("fine-gray", covariates=True, variance=0.1),
        OutcomeModel("pooled logistic", period_days=5),
        OutcomeModel("logistic", weighted=True, draws=10),
        OutcomeModel("cox", weighted=True, interval="bootstrap", draws=10),
        OutcomeModel("cox", covariates=True, variance=0.1),
    ],
    ids=lambda m: f"{m.kind} {m.stratified:d}{m.weighted:d}{m.covariates:d}",
)
def test_every_model_has_a_limit_without_outcomes_in_an_arm(model):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(ONE_ARM))
    found = estimate_effect(ONE_ARM, model, weights=weights, sets=SETS, features=FEATURES)
    assert "nobody in the comparator arm had the outcome during the time at risk" in found.note
    assert math.isnan(found.log_rr)
    assert math.isfinite(found.lower)
    assert found.upper == math.inf
    assert len(found.profile) > 20
    assert found.profile["log_rr"].iloc[-1] > 20
    at = found.profile.set_index("log_rr")["log_likelihood"]
    assert at.loc[found.lower] == pytest.approx(-3.841458820694124 / 2, abs=1e-3)


@pytest.mark.parametrize(
    ("people", "note"),
    [
        (PEOPLE.iloc[:0], "nobody is left"),
        (PEOPLE[PEOPLE["treated"] == 1], "nobody is left in the comparator arm"),
        (PEOPLE.assign(event=0, outcomes=0), "nobody had the outcome"),
    ],
)
def test_what_cannot_be_estimated_says_why(people, note):
    found = estimate_effect(people)
    assert note in found.note
    assert math.isnan(found.log_rr)


def library(kind, stratified, weights=None):
    """The same model by the library itself, the treatment first."""
    x = pd.DataFrame({"treatment": PEOPLE["treated"].astype(float), "sick": SICK.astype(float)})
    y, more = PEOPLE["event"].to_numpy(), {}
    if kind == "cox":
        model, y = st.CoxRegression(ties="efron"), st.Surv(PEOPLE["time"].to_numpy(), y)
    elif kind == "logistic":
        model = st.ConditionalLogisticRegression() if stratified else st.LogisticRegression()
    else:
        model = st.ConditionalPoissonRegression() if stratified else st.PoissonRegression()
        y, more = PEOPLE["outcomes"].to_numpy(float), {"exposure": PEOPLE["days_at_risk"]}
    if stratified:
        more["strata"] = SETS
    return model.set_params(prior=st.Laplace(variance=0.1, exclude=("treatment",))).fit(
        x, y, sample_weight=weights, **more
    )


@pytest.mark.parametrize("kind", ["cox", "logistic", "poisson"])
@pytest.mark.parametrize("stratified", [False, True])
def test_models_with_covariates_are_the_librarys(kind, stratified):
    model = OutcomeModel(kind, stratified=stratified, covariates=True, variance=0.1)
    found = estimate_effect(PEOPLE, model, sets=SETS, features=FEATURES)
    wanted = library(kind, stratified)
    assert not found.note
    assert found.log_rr == pytest.approx(wanted.summary()["coef"]["treatment"], abs=1e-6)
    limits = wanted.confint(["treatment"], method="profile").iloc[0]
    np.testing.assert_allclose([found.lower, found.upper], limits, atol=1e-4)
    ends = wanted.inference.profile("treatment", [found.log_rr, 0.0])["log_likelihood"]
    assert found.llr == pytest.approx(ends[0] - ends[1], abs=1e-5)
    assert found.profile["log_likelihood"].max() == 0


def test_weighted_cox_models_have_robust_intervals():
    found = estimate_effect(PEOPLE, OutcomeModel(weighted=True), weights=WEIGHTS)
    y = st.Surv(PEOPLE["time"].to_numpy(), PEOPLE["event"].to_numpy())
    cox = st.CoxRegression(ties="efron").fit(
        PEOPLE[["treated"]].astype(float), y, sample_weight=WEIGHTS
    )
    wanted = cox.summary(kind="robust").loc["treated"]
    assert (found.interval, found.note) == ("robust", "")
    np.testing.assert_allclose([found.log_rr, found.se], wanted[["coef", "se"]], rtol=1e-6)


@pytest.mark.parametrize("kind", ["cox", "logistic", "poisson"])
def test_doubly_robust_models_have_bootstrap_intervals(kind):
    model = OutcomeModel(kind, weighted=True, covariates=True, variance=0.1, draws=40)
    found = estimate_effect(PEOPLE, model, weights=WEIGHTS, features=FEATURES)
    assert (found.interval, found.note) == ("bootstrap", "")
    wanted = library(kind, False, WEIGHTS).summary().loc["treatment", "coef"]
    assert found.log_rr == pytest.approx(wanted, abs=1e-6)
    assert found.lower < found.log_rr < found.upper
    assert found.se > 0


def test_an_interaction_is_that_of_the_products():
    found = estimate_effect(
        PEOPLE, OutcomeModel(interactions=(8532001,), interval="wald"), features=FEATURES
    )
    t = PEOPLE["treated"].to_numpy(float)
    x = pd.DataFrame({"treatment": t, "sick": SICK, "both": t * SICK})
    y = st.Surv(PEOPLE["time"].to_numpy(), PEOPLE["event"].to_numpy())
    wanted = st.CoxRegression(ties="efron").fit(x, y).summary()
    line = found.interactions.iloc[0]
    assert line["covariate_id"] == 8532001
    np.testing.assert_allclose(
        line[["log_rr", "se", "p"]].astype(float),
        wanted.loc["both", ["coef", "se", "p"]],
        rtol=1e-6,
    )


@pytest.mark.parametrize("interval", ["profile", "wald"])
def test_effects_within_subgroups_are_those_of_each_alone(interval):
    """Where outcomes are counted in each subgroup apart, the two are two models."""
    model = OutcomeModel("poisson", interactions=(8532001,), interval=interval)
    found = estimate_effect(PEOPLE, model, features=FEATURES).subgroups
    assert found["level"].tolist() == [0, 1]
    for line in found.itertuples(index=False):
        own = PEOPLE[line.level == SICK]
        alone = estimate_effect(own, OutcomeModel("poisson", interval=interval))
        limits = (line.log_rr, line.lower, line.upper)
        np.testing.assert_allclose(limits, (alone.log_rr, alone.lower, alone.upper), atol=2e-5)
        assert line.target_subjects == own["treated"].sum()
        assert line.target_outcomes == own.loc[own["treated"] == 1, "event"].sum()


@pytest.mark.parametrize(
    ("settings", "weights"),
    [
        ({"interval": "wald"}, None),
        ({"interval": "robust", "weighted": True}, WEIGHTS),
        ({"interval": "bootstrap", "draws": 20}, None),
        ({"covariates": True, "variance": 0.1}, None),
        ({"covariates": True, "folds": 3}, None),
    ],
)
def test_the_ratio_of_two_subgroups_is_the_interaction(settings, weights):
    people, features, _ = wide()
    model = OutcomeModel(interactions=(8532001,), **settings)
    found = estimate_effect(people, model, weights=weights, features=features)
    without, having = found.subgroups.itertuples(index=False)
    difference = found.interactions["log_rr"].iloc[0]
    assert having.log_rr - without.log_rr == pytest.approx(difference, abs=1e-6)
    assert without.log_rr == pytest.approx(found.log_rr, abs=1e-6)
    assert without.lower < without.log_rr < without.upper
    assert without.lower == pytest.approx(found.lower, abs=2e-5)


def test_subgroups_are_at_the_average_of_the_others():
    people, features, columns = wide()
    model = OutcomeModel(interactions=(8532001, 5), interval="wald")
    found = estimate_effect(people, model, features=features)
    slopes = found.interactions.set_index("covariate_id")["log_rr"]
    of = found.subgroups.set_index(["covariate_id", "level"])["log_rr"]
    mean = columns.mean(axis=0)
    for k, (own, other) in enumerate(((8532001, 5), (5, 8532001))):
        at_other = found.log_rr + slopes[other] * mean[1 - k]
        assert of[own, 0] == pytest.approx(at_other, abs=1e-6)
        assert of[own, 1] == pytest.approx(at_other + slopes[own], abs=1e-6)


def test_a_characteristic_with_values_has_no_subgroups():
    people, features, _ = wide(largest=3.0)
    model = OutcomeModel(interactions=(5,), interval="wald")
    found = estimate_effect(people, model, features=features)
    assert len(found.interactions) == 1
    assert found.subgroups.empty


def wide(largest=1.0):
    """The people with a second covariate, 5, and a third that a prior is on."""
    rng = np.random.default_rng(5)
    columns = np.column_stack((SICK, rng.integers(0, 2, len(SICK)), rng.integers(0, 2, len(SICK))))
    rows, ends, values = [], [0], []
    for j in range(3):
        own = np.flatnonzero(columns[:, j])
        rows, ends = [*rows, *own], [*ends, ends[-1] + len(own)]
        values += [largest if j == 1 and k % 2 else 1.0 for k in range(len(own))]
    table = pd.DataFrame(
        {
            "covariate_id": [8532001, 5, 6],
            "name": ["gender: Female", "five", "six"],
            "analysis_id": [1, 2, 2],
            "concept_id": [8532, 1, 2],
            "people": np.diff(ends),
            "largest": [1.0, largest, 1.0],
            "binary": [True, largest == 1, True],
        }
    )
    features = Features(
        len(SICK), np.array(ends), np.array(rows, np.int32), np.array(values, np.float32), table
    )
    return PEOPLE, features, columns[:, :2]


def test_fine_gray_has_the_competing_outcome():
    people = PEOPLE.assign(event=np.where((PEOPLE["event"] == 0) & (SICK == 1), 2, PEOPLE["event"]))
    found = estimate_effect(people, OutcomeModel("fine-gray", interval="wald"))
    y = st.Surv(people["time"].to_numpy(), people["event"].to_numpy())
    wanted = st.FineGrayRegression().fit(people[["treated"]].astype(float), y)
    assert found.log_rr == pytest.approx(float(wanted.coef_[0]), abs=1e-7)


def test_bootstrap_intervals_are_those_of_draws_of_people():
    model = OutcomeModel(interval="bootstrap", draws=50)
    found = estimate_effect(PEOPLE, model)
    assert found.lower < found.log_rr < found.upper
    assert estimate_effect(PEOPLE, model).lower == found.lower


def test_a_model_that_needs_what_is_not_there_is_refused():
    for settings, what in (
        ({"weighted": True}, "propensity weights"),
        ({"stratified": True}, "matched sets or strata"),
        ({"covariates": True}, "covariates"),
    ):
        with pytest.raises(DataError, match=f"needs {what}, but"):
            estimate_effect(PEOPLE, OutcomeModel(**settings))
    for interval in ("wald", "robust"):
        with pytest.raises(DataError, match="ignores the selection of covariates"):
            OutcomeModel(covariates=True, interval=interval)
    with pytest.raises(DataError, match="kind must be one of 'cox', 'fine-gray'"):
        OutcomeModel("weibull")


def test_curves_end_at_the_ninety_percent_quantile_and_carry_weights():
    plain, twice = curve_table(PEOPLE), curve_table(PEOPLE, np.full(len(PEOPLE), 2.0))
    np.testing.assert_allclose(plain["target_survival"], twice["target_survival"])
    assert plain["time_day"].max() <= np.quantile(PEOPLE["time"], 0.9)
    assert plain["target_at_risk"].iloc[0] == (PEOPLE["treated"] == 1).sum()
    assert (plain["target_survival_lb"] <= plain["target_survival"]).all()


def test_the_curve_of_an_arm_ends_where_the_arm_does():
    people = pd.DataFrame(
        {"treated": [1] * 20 + [0] * 5, "time": [*range(2, 42, 2), *(4, 6, 8, 10, 12)]}
    )
    people["event"] = people["time"].isin([6, 30]).astype(int)
    table = curve_table(people).set_index("time_day")
    ours = ["comparator_survival", "comparator_survival_lb", "comparator_survival_ub"]
    assert table.loc[12, "comparator_survival"] == 0.75  # everybody is censored by that day
    assert table.loc[13:, ours].isna().to_numpy().all()
    assert table.loc[:12, ours].notna().to_numpy().all()
    assert table["target_survival"].notna().all()
    assert table.loc[30, "target_survival"] < table.loc[12, "target_survival"]
    people.loc[people["treated"] == 0, "event"] = 1
    table = curve_table(people).set_index("time_day")
    assert table.loc[12:, "comparator_survival"].eq(0).all()  # all had it: it is known to stay zero
    table = curve_table(people[people["treated"] == 1])
    assert table["comparator_survival"].isna().all()
    assert table["comparator_at_risk"].dropna().eq(0).all()


def test_the_detectable_ratio_of_schoenfeld():
    # exp(sqrt((0.8416212 + 1.959964)^2 / (100 * 0.25)))
    people = pd.DataFrame({"treated": [0, 1] * 100, "event": [1, 0, 0, 1] * 50})
    assert detectable_ratio(people) == pytest.approx(1.7512, abs=1e-4)
    assert detectable_ratio(people.assign(event=0)) == math.inf
    assert detectable_ratio(people, "logistic") == pytest.approx(
        math.exp(2.8015852 / math.sqrt(50))
    )


@pytest.mark.parametrize("weights", [None, WEIGHTS, np.where(SICK, WEIGHTS, 0)])
@pytest.mark.parametrize("sets", [None, SETS])
def test_constant_effects_and_robust_errors_in_closed_form_are_those_of_a_fit(weights, sets):
    model = OutcomeModel(
        stratified=sets is not None, weighted=weights is not None, interval="robust"
    )
    found = estimate_effect(PEOPLE, model, weights=weights, sets=sets)
    y = st.Surv(PEOPLE["time"].to_numpy(), PEOPLE["event"].to_numpy())
    cox = st.CoxRegression(ties="efron").fit(
        PEOPLE[["treated"]].astype(float), y, sample_weight=weights, strata=sets
    )
    clusters = PEOPLE["person_id"] if sets is None else sets
    wanted = cox.summary(kind="robust", cluster=clusters).loc["treated"]
    assert found.se == pytest.approx(wanted["se"], rel=1e-8)
    assert found.lower == pytest.approx(wanted["lower"], abs=1e-8)
    p = cox.checks.proportionality().loc["treated", "p"]
    assert found.proportional_p == pytest.approx(p, rel=1e-8)
    plain = estimate_effect(PEOPLE, OutcomeModel(interval="wald"))
    assert plain.se > 0


def test_a_constant_effect_is_tested_beside_covariates_too():
    model = OutcomeModel(covariates=True, variance=1e8)
    found = estimate_effect(PEOPLE, model, features=FEATURES)
    x = pd.DataFrame({"treatment": PEOPLE["treated"].astype(float)})
    y = st.Surv(PEOPLE["time"].to_numpy(), PEOPLE["event"].to_numpy())
    both = st.CoxRegression(ties="efron").fit(x.assign(sick=SICK), y)
    alone = st.CoxRegression(ties="efron").fit(x, y, offset=both.coef_[1] * SICK)
    wanted = alone.checks.proportionality().loc["treatment", "p"]
    assert found.proportional_p == pytest.approx(wanted, rel=1e-4)
