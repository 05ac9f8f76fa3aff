"""Standardised incidence: averages of predictions, derivatives by weights, one event only."""

import numpy as np
import pandas as pd
import pytest

from steropes import CoxRegression, DataError, FineGrayRegression, Laplace, Normal, Surv
from steropes.infer import robust_hazard_standard_errors as hazard_influences
from steropes.infer.inference_constants import BlockPolicy

AT = [0.3, 0.8]


@pytest.fixture
def cohort(rng):
    """Draw covariates and times with two causes, with weights, strata and offsets of rows."""
    n = 80
    X = pd.DataFrame({"drug": rng.integers(0, 2, n) * 1.0, "age": rng.normal(size=n) + 5})
    time = rng.exponential(np.exp(-0.7 * X["drug"]))
    leave = rng.exponential(1.5, n)
    cause = np.where(time <= leave, rng.integers(1, 3, n), 0)
    given = {
        "sample_weight": rng.uniform(0.5, 2, n),
        "strata": np.array(["b", "a"])[rng.integers(0, 2, n)],
        "offset": rng.normal(size=n) * 0.2,
    }
    return X, Surv(np.minimum(time, leave), cause), given


def set_to(X, value):
    return X.assign(drug=value)


def test_incidence_is_the_weighted_mean_of_predictions(cohort):
    X, y, given = cohort
    m = FineGrayRegression().fit(X, y, **given)
    found = m.curves.standardized_incidence(X, AT, by="drug", **given)
    new = {k: given[k] for k in ("strata", "offset")}
    w = given["sample_weight"]
    means = [
        np.average(m.predict_cumulative_incidence(set_to(X, v), AT, **new), axis=0, weights=w)
        for v in (0.0, 1.0)
    ]
    table = found.incidence
    np.testing.assert_allclose(table["incidence"], np.ravel(means), rtol=1e-9)
    assert table["drug"].tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(found.differences["difference"], means[1] - means[0], rtol=1e-9)
    np.testing.assert_allclose(found.ratios["ratio"], means[1] / means[0], rtol=1e-9)
    inside = table["lower"].lt(table["incidence"]) & table["incidence"].lt(table["upper"])
    assert inside.all()


def test_time_lost_is_the_area_under_the_incidence(cohort):
    X, y, given = cohort
    m = FineGrayRegression().fit(X, y, **given)
    found = m.curves.standardized_incidence(X, AT, by="drug", **given)
    new = {k: given[k] for k in ("strata", "offset")}
    for value, tau in [(0, 0.3), (1, 0.8)]:
        grid = np.unique(np.append(m.unique_times_[m.unique_times_ < tau], [0.0, tau]))
        curves = m.predict_cumulative_incidence(set_to(X, float(value)), grid[:-1], **new)
        curve = np.average(curves, axis=0, weights=given["sample_weight"])
        table = found.times_lost
        row = table[(table["drug"] == value) & (table["time"] == tau)].iloc[0]
        assert row["mean"] == pytest.approx(curve @ np.diff(grid), rel=1e-9)
        assert row["lower"] < row["mean"] < row["upper"]
    lost = found.times_lost.pivot(index="time", columns="drug", values="mean")
    np.testing.assert_allclose(
        found.time_lost_differences["difference"], lost[1] - lost[0], rtol=1e-9
    )


@pytest.mark.slow
def test_standard_errors_are_those_of_the_infinitesimal_jackknife(cohort):
    """Each row's weight moves β̂, the baseline and the censoring curve, while people stay."""
    X, y, given = cohort
    new = {"strata": given["strata"], "offset": given["offset"]}

    def averages(w):
        m = FineGrayRegression(tol=1e-11).fit(X, y, sample_weight=w, **new)
        found = m.curves.standardized_incidence(X, AT, by="drug", **new)
        values = [
            found.incidence["incidence"],
            found.differences["difference"],
            np.log(found.ratios["ratio"]),
            found.times_lost["mean"],
            found.time_lost_differences["difference"],
        ]
        return found, np.concatenate(values)

    w = given["sample_weight"]
    found, value = averages(w)
    influence = np.empty((len(w), len(value)))
    for i in range(len(w)):
        v = w.copy()
        v[i] *= 1 + 1e-4
        influence[i] = (averages(v)[1] - value) / 1e-4
    expected = np.sqrt((influence**2).sum(axis=0))
    errors = [
        found.incidence["se"],
        found.differences["se"],
        found.ratios["se"] / found.ratios["ratio"],
        found.times_lost["se"],
        found.time_lost_differences["se"],
    ]
    # The contribution of the censoring curve differs by one over the number at risk.
    np.testing.assert_allclose(np.concatenate(errors), expected, rtol=0.03)
    clusters = np.arange(len(w)) // 2
    m = FineGrayRegression(tol=1e-11).fit(X, y, sample_weight=w, **new)
    table = m.curves.standardized_incidence(X, AT, by="drug", cluster=clusters, **new).incidence
    paired = influence[::2] + influence[1::2]
    np.testing.assert_allclose(table["se"], np.sqrt((paired**2).sum(axis=0))[:4], rtol=0.03)


def test_one_person_has_the_curve_of_incidence_curves(cohort):
    X, y, _ = cohort
    m = FineGrayRegression().fit(X, y)
    columns = ["incidence", "se", "lower", "upper"]
    found = m.curves.standardized_incidence(X[:1], AT).incidence[columns]
    expected = m.curves.incidence(X[:1], AT)[columns]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_without_competing_events_it_is_one_minus_the_survival_of_a_cox_model(cohort):
    X, y, _ = cohort
    y = Surv(y["time"], y["event"] == 1)
    ours = FineGrayRegression().fit(X, y).curves.standardized_incidence(X, AT, by="drug")
    cox = CoxRegression(ties="breslow").fit(X, y).curves.standardized_survival(X, AT, by="drug")
    np.testing.assert_allclose(ours.incidence["incidence"], 1 - cox.survival["survival"], rtol=1e-7)
    np.testing.assert_allclose(ours.ratios["ratio"], cox.risk_ratios["ratio"], rtol=1e-7)
    time_lived = cox.restricted_means["mean"]
    np.testing.assert_allclose(ours.times_lost["mean"], np.tile(AT, 2) - time_lived, rtol=1e-7)


def test_weights_of_people_equal_repeated_rows(cohort):
    X, y, _ = cohort
    m = FineGrayRegression().fit(X, y)
    count = np.arange(len(X)) % 3
    weighted = m.curves.standardized_incidence(X, AT, by="drug", sample_weight=count)
    repeated = m.curves.standardized_incidence(
        X.iloc[np.repeat(np.arange(len(X)), count)], AT, by="drug"
    )
    for name in ("incidence", "differences", "ratios", "times_lost"):
        pd.testing.assert_frame_equal(getattr(weighted, name), getattr(repeated, name))


def test_many_times_in_blocks_have_the_errors_of_few(cohort, monkeypatch):
    X, y, _ = cohort
    m = FineGrayRegression().fit(X, y)
    whole = m.curves.standardized_incidence(X, by="drug")
    small = BlockPolicy(hazard_influences=1)
    monkeypatch.setattr(hazard_influences, "BLOCKS", small)
    parts = m.curves.standardized_incidence(X, by="drug")
    pd.testing.assert_frame_equal(parts.differences, whole.differences)
    assert set(whole.incidence["time"]) == set(m.unique_times_)


def test_labels_and_formulas_define_groups(cohort):
    X, y, _ = cohort
    data = X.assign(drug=np.where(X["drug"] == 1, "new", "old"))
    expected = FineGrayRegression().fit(X, y).curves.standardized_incidence(X, AT, by="drug")
    labelled = FineGrayRegression().fit(data, y).curves.standardized_incidence(data, AT, by="drug")
    # "new" is the first label, and therefore the reference.
    np.testing.assert_allclose(
        labelled.differences["difference"], -expected.differences["difference"], rtol=1e-6
    )
    assert labelled.differences["reference"].tolist() == ["new", "new"]
    data["time"], data["cause"] = y["time"], y["event"]
    m = FineGrayRegression.from_formula("Surv(time, cause) ~ drug + age", data)
    by_formula = m.curves.standardized_incidence(data, AT, by="drug")
    np.testing.assert_allclose(by_formula.ratios["ratio"], labelled.ratios["ratio"], rtol=1e-6)


def test_times_without_observation_are_missing_and_others_refused(cohort):
    X, y, _ = cohort
    m = FineGrayRegression().fit(X, y)
    table = m.curves.standardized_incidence(X, [0.3, 1e6]).incidence
    assert table["incidence"].isna().tolist() == [False, True]
    with pytest.raises(DataError, match="times must be above 0"):
        m.curves.standardized_incidence(X, [0.0])
    with pytest.raises(DataError, match="too many for groups"):
        m.curves.standardized_incidence(X, AT, by="age")
    with pytest.raises(DataError, match="Laplace prior"):
        FineGrayRegression(prior=Laplace(1.0)).fit(X, y).curves.standardized_incidence(X, AT)
    shrunken = FineGrayRegression(prior=Normal(0.1)).fit(X, y).curves.standardized_incidence(X, AT)
    assert shrunken.incidence["se"].gt(0).all()


def test_an_event_at_time_zero_counts_from_the_start():
    y = Surv([0.0, 0.0, 1.0, 2.0, 3.0], [1, 1, 2, 1, 0])
    m = FineGrayRegression().fit([[0.0], [1.0], [1.0], [0.0], [0.0]], y)
    found = m.curves.standardized_incidence([[0.0]], [1.0, 1.5])
    jump = m.predict_cumulative_incidence([[0.0]], [0.0])[0, 0]
    np.testing.assert_allclose(found.times_lost["mean"], [jump, 1.5 * jump], rtol=1e-12)
    survival = CoxRegression().fit([[0.0], [1.0], [1.0], [0.0], [0.0]], Surv(y["time"], [1] * 5))
    at_zero = survival.predict_survival([[0.0]], [0.0])[0, 0]
    mean = survival.curves.restricted_mean([[0.0]], [1.0])
    assert mean[0, 0] == pytest.approx(at_zero, rel=1e-12)
    averages = survival.curves.standardized_survival([[0.0]], [1.0])
    assert averages.restricted_means["mean"][0] == pytest.approx(at_zero, rel=1e-12)


def test_before_the_first_event_everything_is_zero_but_the_ratio(cohort):
    X, y, _ = cohort
    first = np.argmax(y["event"] == 1)
    late = np.where(y["event"] == 1, 0, y["event"])
    late[first] = 1
    y = Surv(np.where(np.arange(len(y)) == first, 0.5, y["time"]), late)
    m = FineGrayRegression(prior=Normal(1.0)).fit(X, y)
    found = m.curves.standardized_incidence(X, [0.2, 0.6], by="drug")
    for table in (found.incidence, found.times_lost, found.differences):
        before = table[table["time"] == 0.2].select_dtypes("number").drop(columns=["time", "drug"])
        before = before.drop(columns="reference", errors="ignore")
        assert (before == 0).all(axis=None)
        assert not np.signbit(before.to_numpy()).any()
    assert found.ratios["ratio"].isna().tolist() == [True, False]
    after = found.incidence[found.incidence["time"] == 0.6]
    assert (after["lower"].gt(0) & after["upper"].lt(1)).all()
    averages = CoxRegression(prior=Normal(1.0)).fit(X, Surv(y["time"], y["event"] == 1))
    curve = averages.curves.standardized_survival(X, [0.2], by="drug").survival
    assert (curve[["survival", "lower", "upper"]] == 1).all(axis=None)


def test_rows_of_the_fit_may_be_weighted_repeated_or_reordered(cohort, rng):
    X, y, given = cohort
    count = np.arange(len(X)) % 3
    strata = given["strata"]

    def averages(rows, weights=None, cluster=None):
        m = FineGrayRegression(tol=1e-11)
        m.fit(X.iloc[rows], y[rows], sample_weight=weights, strata=strata[rows])
        new = {"strata": strata, "cluster": cluster}
        return m.curves.standardized_incidence(X, AT, by="drug", **new).time_lost_differences

    everyone = np.arange(len(X))
    weighted = averages(everyone, count.astype(float))
    repeated = np.repeat(everyone, count)
    pd.testing.assert_frame_equal(weighted, averages(repeated, cluster=repeated), rtol=1e-6)
    mixed = rng.permutation(everyone)
    pd.testing.assert_frame_equal(weighted, averages(mixed, count[mixed] * 1.0), rtol=1e-6)


def test_an_event_at_time_zero_is_left_out_of_the_default_times():
    X, event = [[0.0], [1.0], [0.0], [1.0], [1.0], [0.0]], np.array([1, 1, 1, 0, 1, 1])
    y = Surv([0, 0, 2, 3, 4, 5], event)
    for found in (
        CoxRegression().fit(X, y).curves.standardized_survival(X).survival,
        FineGrayRegression().fit(X, y).curves.standardized_incidence(X).incidence,
    ):
        assert found["time"].tolist() == [2, 4, 5]


@pytest.mark.sampled
@pytest.mark.parametrize("by_formula", [False, True])
@pytest.mark.parametrize("by", ["arm", "drug", "dose"])
@pytest.mark.parametrize("model", [CoxRegression, FineGrayRegression])
def test_groups_and_reference_are_those_of_the_fit(model, by, by_formula, rng):
    """Rows of one arm are averaged over all arms of the fit, against its first label."""
    n = 120
    data = pd.DataFrame({
        "arm": pd.Categorical(rng.choice(list("pqr"), n), ["q", "r", "p"]),
        "drug": rng.integers(0, 2, n) * 1.0, "dose": rng.integers(0, 12, n),
        "age": rng.normal(size=n) + 5,
    })  # fmt: skip
    data["time"], data["event"] = rng.exponential(np.exp(-0.7 * data["drug"])), 1
    X = data[["arm", "drug", "dose", "age"]]
    if by_formula:
        m = model.from_formula("Surv(time, event) ~ arm + drug + dose + age", data)
    else:
        m = model().fit(X, Surv(data["time"], data["event"]))
    name = "standardized_survival" if model is CoxRegression else "standardized_incidence"
    rows = np.flatnonzero((data["arm"] == "r") & (data["drug"] == 1))
    some = X.iloc[rows].assign(arm=["r"] * len(rows))
    found = getattr(m.curves, name)(some, AT, by=by)
    values = list(data[by].cat.categories) if by == "arm" else sorted(set(data[by]))
    tables = {}
    for value in values:
        column = pd.Categorical([value] * len(rows), ["q", "r", "p"]) if by == "arm" else value
        tables[value] = X.iloc[rows].assign(**{by: column})
    expected = getattr(m.curves, name)(some, AT, by=tables)
    for ours, theirs in zip(vars(found).values(), vars(expected).values(), strict=True):
        pd.testing.assert_frame_equal(ours.rename(columns={by: "group"}), theirs, rtol=1e-9)
    assert set(found.differences["reference"]) == {values[0]}
