"""Data that are odd but valid get the estimate of all rows in one place, and no refusal."""

import numpy as np
import pandas as pd
import pytest
from federated_data import COLUMNS, OPEN, ROLES, plan_of, pooled_fit, site_tables
from scipy import sparse

from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    FineGrayRegression,
    LogisticRegression,
    PoissonRegression,
    Surv,
)
from steropes.errors import DataError, SeparationError
from steropes.federated import FederatedPlan, FederatedSite, Message
from steropes.federated.answer_layout import layout, pack
from steropes.federated.federated_site import _sums
from steropes.federated.fit_in_rounds import evaluations_of
from steropes.federated.fixed_point_sums import to_bytes
from steropes.federated.message_exchange import Exchange, Round
from steropes.federated.pooled_description import describe
from steropes.federated.site_description import description
from steropes.federated.site_risk_set_sums import RiskIntervals, event_times
from steropes.federated.site_rows import read_rows
from steropes.studies.federation import OwnerRules, federate

SMALL = {"north": 90, "south": 120, "west": 60}


def run(tables, **settings):
    survival = settings["model"] in ("cox", "fine_gray")
    alone = survival and settings.get("baseline") == "common"
    plan = FederatedPlan(sites=tuple(tables), per_site=alone, **settings)
    return federate(plan, {s: FederatedSite(s, d, OPEN) for s, d in tables.items()})


def pooled(tables):
    """All rows, with strata that are the sites' own."""
    return pd.concat([d.assign(at=s) for s, d in tables.items()], ignore_index=True)


def three(rng, n):
    """Three sites with covariates alone."""
    return {
        s: pd.DataFrame({"x": rng.normal(size=n), "z": (rng.random(n) < 0.4) * 1.0}) for s in "abc"
    }


@pytest.mark.parametrize("model", ["cox", "fine_gray"])
def test_risk_sets_of_all_sites_with_any_number_of_sparse_columns(model, rng):
    names, parts = tuple("abcde"), {}
    for site, n in {"s": 60, "t": 70, "u": 30}.items():
        X = (rng.random((n, 5)) < 0.3) * 1.0
        t = np.round(rng.exponential(np.exp(-X[:, 0])), 1) + 0.1
        y = rng.integers(0, 3 if model == "fine_gray" else 2, n)
        parts[site] = {"X": sparse.csc_array(X), "t": t, "y": y}
    found = run(parts, model=model, columns=names, baseline="common", outcome="t", event="y")
    X = sparse.vstack([d["X"] for d in parts.values()]).tocsc()
    t, y = (np.concatenate([d[k] for d in parts.values()]) for k in "ty")
    whole = (CoxRegression if model == "cox" else FineGrayRegression)().fit(X, Surv(t, y))
    assert found.coef == pytest.approx(whole.coef_, abs=1e-7)


@pytest.mark.sampled
@pytest.mark.parametrize("baseline", ["site", "common"])
@pytest.mark.parametrize("model", ["cox", "fine_gray"])
def test_a_site_without_events_takes_part_in_survival_models(model, baseline):
    tables = site_tables(model, sites=SMALL)
    west = tables["west"]
    tables["west"] = west.assign(y=west.y.where(west.y != 1, 0))
    found = run(tables, model=model, columns=COLUMNS, baseline=baseline, **ROLES[model])
    whole = pooled_fit(model, tables, baseline)
    assert np.abs(found.coef / whole.coef_ - 1).max() < 1e-7
    assert found.log_likelihood == pytest.approx(whole.log_likelihood_, rel=1e-9)
    assert found.events == sum(int((d.y == 1).sum()) for d in tables.values())


@pytest.mark.parametrize(
    ("model", "ties"), [("conditional", None), ("conditional", "breslow"), ("sccs", None)]
)
def test_a_site_whose_strata_say_nothing_is_named(model, ties):
    tables = site_tables(model, sites=SMALL)
    tables["west"] = tables["west"].assign(y=0)
    with pytest.raises(DataError, match=r"site 'west': no stratum .* leave the site out"):
        run(tables, model=model, columns=COLUMNS, ties=ties, **ROLES[model])


def test_counts_may_be_fractions(rng):
    tables = {s: d.assign(y=rng.choice([0.2, 0.4, 0.9], 80)) for s, d in three(rng, 80).items()}
    found = run(tables, model="poisson", columns=("x", "z"), baseline="common")
    d = pooled(tables)
    whole = PoissonRegression().fit(d[["x", "z"]], d.y)
    assert found.coef[1:] == pytest.approx(whole.coef_, abs=1e-8)
    assert found.log_likelihood == pytest.approx(whole.log_likelihood_)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_sets_of_several_cases_that_one_row_is_expected_to_be(ties, rng):
    tables = three(rng, 100)
    for s, d in tables.items():
        i, d["set"] = np.arange(100), np.repeat([f"{s}{k}" for k in range(10)], 10)
        one = i % 10 == 9
        d["x"], d["o"] = one * 1.0, np.where(one, 6.0, 0.0)
        d["y"] = ((i % 10 < 5) & ((i >= 20) | (i % 10 > 0)) | (one & (i < 20))) * 1
    found = run(tables, model="conditional", columns=("x", "z"), strata="set", offset="o",
                ties=ties)  # fmt: skip
    d = pooled(tables)
    whole = ConditionalLogisticRegression(method=ties).fit(
        d[["x", "z"]], d.y, strata=d.set, offset=d.o
    )
    assert found.coef == pytest.approx(whole.coef_, abs=1e-6)


def test_late_entries_of_large_rates_leave_the_digits_of_small_ones(rng):
    tables, few = three(rng, 150), np.arange(150) < 5
    for d in tables.values():
        d["e"] = np.where(few, 0.0, rng.uniform(1, 2, 150))
        d["t"] = np.where(few, rng.uniform(0.1, 0.9, 150), d.e + rng.exponential(1, 150))
        d["y"], d["o"] = 1, np.where(few, -14.0, 14.0)
    found = run(tables, model="cox", columns=("x", "z"), baseline="common", outcome="t", event="y",
                entry="e", offset="o")  # fmt: skip
    d = pooled(tables)
    whole = CoxRegression().fit(d[["x", "z"]], Surv(d.t, d.y, d.e), offset=d.o)
    assert found.coef == pytest.approx(whole.coef_, abs=1e-8)
    assert found.summary()["se"].to_numpy() == pytest.approx(whole.summary()["se"], rel=1e-8)


@pytest.mark.parametrize("T", [1, 2, 7, 8, 33])
def test_sums_over_those_at_risk_are_those_of_a_table(T, rng):
    first, last = rng.integers(0, T + 1, 50), rng.integers(-1, T, 50)
    table = (first <= np.arange(T)[:, None]) & (np.arange(T)[:, None] <= last)
    of, z, a = RiskIntervals(first, last, T), rng.normal(size=(50, 2)), rng.normal(size=T)
    assert of.at_risk(z) == pytest.approx(table @ z, abs=1e-12)
    assert of.over_times(a) == pytest.approx(table.T @ a, abs=1e-12)


def test_a_column_that_one_site_does_not_have_takes_no_more_rounds():
    tables = site_tables("conditional", sites=SMALL)
    tables["west"] = tables["west"].assign(year=0.0)
    settings = {"model": "conditional", "columns": COLUMNS, "prior": "laplace", "variance": 1.0}
    found = run(tables, **settings, exclude=("marker",), **ROLES["conditional"])
    plain = site_tables("conditional", sites=SMALL)
    usual = run(plain, **settings, exclude=("marker",), **ROLES["conditional"])
    assert found.converged
    assert found.rounds <= usual.rounds + 4


@pytest.mark.parametrize("model", ["conditional", "cox", "logistic"])
def test_sums_do_not_depend_on_how_columns_are_stored(model):
    tables = site_tables(model, sites=SMALL)
    d, plan = tables["west"], plan_of(model, tables)
    arrays = {
        "points": np.array([[0.1, 0.02, 0.0]]), "center": np.array([0.0, 2010.0, 0.0]),
        "scale": np.ones(3), "columns": np.arange(3), "hessians": np.array([0]),
    }  # fmt: skip
    request = Message("request", plan.study, 1, "evaluate", arrays=arrays)
    X = sparse.csc_array(d[list(COLUMNS)].to_numpy())
    stored = d.to_dict("series") | {"X": X}
    one, other = (_sums(read_rows(x, plan, 2), plan, request, 30.0) for x in (d, stored))
    for name, x in one.items():
        if name != "uncentred" or model != "logistic":  # there it is about the design's own centres
            assert other[name] == pytest.approx(x, rel=1e-9), name


def test_a_column_whose_sites_differ_much_more_than_their_rows_is_determined():
    tables = {
        s: d.assign(marker=100 * d.marker) for s, d in site_tables("cox", sites=SMALL).items()
    }
    north = tables["north"]
    tables["north"] = north.assign(marker=7.0)
    found = run(tables, model="cox", columns=COLUMNS, **ROLES["cox"])
    whole = pooled_fit("cox", tables | {"north": north.assign(marker=0.0)})
    assert found.coef == pytest.approx(whole.coef_, rel=1e-6)


@pytest.mark.parametrize("model", ["poisson", "logistic"])
def test_a_column_whose_means_at_sites_are_far_apart_is_no_separation(model, rng):
    """An intercept at a centre between them says nothing, which is no fault of the column."""
    tables, Model = three(rng, 200), PoissonRegression if model == "poisson" else LogisticRegression
    tables["a"]["x"] = 7.0
    for s in "bc":
        tables[s]["x"] = rng.exponential(1e-4, 200)
    tables = {s: d.assign(y=rng.integers(0, 2, 200)) for s, d in tables.items()}
    found = run(tables, model=model, columns=("x", "z"))
    d = pooled(tables)
    X = pd.concat([pd.get_dummies(d["at"]).astype(float), d[["x", "z"]]], axis=1)
    whole = Model(fit_intercept=False).fit(X, d.y)
    np.testing.assert_allclose(found.coef, whole.coef_[3:], rtol=1e-7)
    np.testing.assert_allclose(found.summary()["se"], whole.summary()["se"][3:], rtol=1e-4)
    assert found.converged
    for s in "bc":
        tables[s]["x"] = (tables[s].index < 100) * 1e-2
        tables[s].loc[:99, "y"] = 0
    with pytest.raises(SeparationError, match=r"'x'.* diverge"):
        run(tables, model=model, columns=("x", "z"))


def evaluations(rng):
    """Of three sites that share risk sets, and their columns' coefficients."""
    tables = {s: d.assign(t=rng.exponential(1, 60), y=1) for s, d in three(rng, 60).items()}
    plan = FederatedPlan(model="cox", columns=("x", "z"), sites=tuple(tables), outcome="t",
                         event="y", baseline="common", per_site=True)  # fmt: skip
    rows = [read_rows(d, plan, k) for k, d in enumerate(tables.values())]

    def converse(request):
        """Any coefficients, without masks."""
        answers = []
        for site, own in zip(tables, rows, strict=True):
            if request.ask == "times":
                answers.append(request.reply("answer", site, arrays={"times": event_times(own)}))
                continue
            found = description(own, plan, request)
            if request.ask == "risk_sets":
                found = _sums(own, plan, request, OwnerRules().predictor)
            sums = to_bytes(pack(layout(plan, request), found))
            answers.append(request.reply("answer", site, sums=sums))
        return Round(request, tuple(answers))

    exchange = Exchange(plan, converse, lambda message: 0)
    return evaluations_of(exchange, describe(plan, exchange), np.zeros(2))


@pytest.mark.parametrize("far", [3.0, -8.0])
def test_a_hessian_after_a_step_too_far_is_not_the_one_foretold(far, rng):
    """Foretold from a point, rates at another are wrong by any factor; slopes look small then."""
    known = evaluations(rng)
    known.hessian(np.zeros(2), np.arange(2))
    H, raw = known.hessian(np.array([far, 1.0]), np.arange(2))
    exact, whole = known.exact_hessian(np.array([far, 1.0]), np.arange(2))
    assert (raw < 12 * whole).all()
    assert np.abs(H - exact).max() < 12 * np.abs(whole).max()


@pytest.mark.parametrize("far", [30.0, 120.0, 600.0, 1e5])
def test_nothing_is_told_of_a_point_that_is_too_far(far, rng):
    known = evaluations(rng)
    known.value(np.zeros(2))
    assert known.value(np.array([far, 0.0]))[0] == np.inf
    at = known.find(np.array([far, 0.0]))
    assert not at.sums.S1.any()
    assert not at.sums.second.any() if at.sums.second is not None else True
    assert known.value(np.array([1.0, 0.0]))[0] < np.inf
