"""Profiles of sites: their sum is the pooled likelihood of a model stratified by site."""

import json

import numpy as np
import pandas as pd
import pytest
from federated_data import plan_of, pooled_fit, site_tables
from federated_data import run as federated_run
from scipy.optimize import minimize_scalar

from steropes.designs.effects.two_group_cox import TwoGroupCox
from steropes.studies.federation.site_profiles import _combined

SMALL = {"north": 90, "south": 120, "west": 60}


def run(model, tables, columns=("drug",), parameters=("drug",), **more):
    settings = {"method": "profiles", "parameters": parameters} | more
    return federated_run(plan_of(model, tables, columns, **settings), tables)


@pytest.mark.parametrize("model", ["cox", "poisson"])
def test_the_sum_of_profiles_is_the_pooled_fit(model, monkeypatch):
    tables = site_tables(model, sites=SMALL)
    monkeypatch.setattr("federated_data.COLUMNS", ("drug",))
    pooled = pooled_fit(model, tables)
    found = run(model, tables)
    fixed = found.table.set_index("method").loc["fixed, profile"]
    low, high = pooled.confint("drug", method="profile").to_numpy()[0]
    assert fixed["coef"] == pytest.approx(pooled.coef_[-1], abs=1e-4)
    assert [fixed["lower"], fixed["upper"]] == pytest.approx([low, high], abs=2e-3)
    assert found.rounds == 1
    assert fixed["sites"] == 3


def test_a_site_without_events_among_the_exposed_takes_part():
    tables = site_tables("poisson", sites=SMALL)
    west = tables["west"]
    tables["west"] = west.assign(y=west.y.where(west.drug == 0, 0))
    by = run("poisson", tables).table.set_index("method")
    assert by.loc["fixed, profile", "sites"] == 3
    assert by.loc["fixed, normal", "sites"] == 2
    assert by.loc["fixed, profile", "coef"] < by.loc["fixed, normal", "coef"] - 0.01


def test_several_parameters_and_what_is_written(tmp_path):
    tables = site_tables("logistic", sites=SMALL)
    found = run("logistic", tables, ("drug", "year"), ("drug", "year"))
    assert found.table["parameter"].unique().tolist() == ["drug", "year"]
    assert np.isfinite(found.table["coef"]).all()
    assert set(found.profiles["year"]["site"]) == set(tables)
    said = json.loads(found.write(tmp_path / "it.json").read_text())
    assert len(said["combined"]) == 8
    assert isinstance(found.summary(), pd.DataFrame)


def test_a_site_that_others_separate_takes_part_and_says_so():
    tables = site_tables("poisson", sites=SMALL)
    west = tables["west"]
    tables["west"] = west.assign(year=west.year.where(west.y == 0, 2001.0))
    west = tables["west"].assign(other=(np.arange(len(west)) % 3 == 0).astype(float))
    tables["west"] = west.assign(y=west.y.where(west.other == 0, 0))
    for site in ("north", "south"):
        tables[site] = tables[site].assign(other=(np.arange(len(tables[site])) % 3 == 0) * 1.0)
    found = run("poisson", tables, ("drug", "other"))
    assert found.table.set_index("method").loc["fixed, profile", "sites"] == 3
    assert "site 'west': for the profile of 'drug', 'other' had normal priors" in found.notes[0]


def test_the_sum_of_linear_profiles_has_a_variance_at_each_site():
    tables = site_tables("linear", sites=SMALL)
    found = run("linear", tables, ("drug", "year"), weight=None)

    def loss(b):
        total = 0.0
        for d in tables.values():
            Z = np.column_stack([np.ones(len(d)), d.year - 2010])
            rest = d.y - b * d.drug
            rss = np.linalg.lstsq(Z, rest)[1][0]
            total += 0.5 * len(d) * np.log(rss)
        return total

    best = minimize_scalar(loss, (-1, 2), tol=1e-10)
    fixed = found.table.set_index("method").loc["fixed, profile"]
    assert fixed["coef"] == pytest.approx(best.x, abs=1e-4)
    assert loss(fixed["upper"]) - best.fun == pytest.approx(1.9207, abs=0.02)


@pytest.mark.parametrize("prior", ["none", "laplace"])
def test_a_site_where_nobody_has_a_column_of_small_unit_says_nothing(prior):
    tables = site_tables("cox", sites=SMALL)
    tables["west"] = tables["west"].assign(marker=0.0)
    settings = {"columns": ("marker",), "parameters": ("marker",), "prior": prior,
                "variance": 1e12 if prior == "laplace" else 1.0}  # fmt: skip
    found = run("cox", tables, **settings).table.set_index("method")
    fewer = run("cox", {s: tables[s] for s in ("north", "south")}, **settings).table
    two = fewer.set_index("method").loc["fixed, profile"]
    for what in ("coef", "lower", "upper"):
        assert found.loc["fixed, profile", what] == pytest.approx(two[what], rel=1e-4)
    assert np.isfinite(found.loc["fixed, normal", "coef"])


def test_a_profile_that_rises_until_exp_cannot_tell_takes_part():
    tables = site_tables("cox", sites=SMALL)
    few = {"drug": [1, 0, 0, 0, 0, 1, 1, 1, 0, 0], "year": [2, 3, 5, 4, 2, 1, 6, 6, 0, 1],
           "y": [0, 0, 1, 1, 0, 0, 1, 1, 0, 1], "set": np.arange(10) // 5}  # fmt: skip
    tables["west"] = pd.DataFrame(few | {"t": np.arange(1.0, 11), "e": 0.0, "w": 1.0, "o": 0.0})
    found = run("cox", tables, ("drug", "year"), strata="set")
    fixed = found.table.set_index("method").loc["fixed, profile"]
    assert fixed["sites"] == 3
    assert np.isfinite(fixed[["coef", "lower", "upper"]].to_numpy(float)).all()
    west = found.profiles["drug"].query("site == 'west'")
    assert west["log_likelihood"].iloc[0] < west["log_likelihood"].iloc[-1] == 0


@pytest.mark.sampled
@pytest.mark.parametrize("unit", [1.0, 1e-4])
@pytest.mark.parametrize("events", [(30, 0), (0, 12), (5, 1)])
def test_one_site_has_the_interval_of_its_own_profile_in_any_unit(events, unit):
    y = np.concatenate([np.arange(200) < k for k in events]).astype(float)
    t = np.where(y == 1, 1.0 + np.arange(400) % 300, 365.0)
    table = pd.DataFrame({"y": y, "t": t, "drug": np.repeat([unit, 0.0], 200)})
    more = {"ties": "breslow", "entry": None, "weight": None, "offset": None}
    found = run("cox", {"a": table}, **more).table.set_index("method")
    groups = TwoGroupCox.of(t, y, table.drug > 0)
    for method in ("fixed, profile", "fixed, normal", "random, normal"):
        own = found.loc[method, ["coef", "lower", "upper"]].to_numpy(float) * unit
        np.testing.assert_allclose(own, [groups.maximum(), *groups.interval()], atol=1e-4)


def test_a_site_with_a_narrow_profile_is_named_where_the_result_lies_beyond_it():
    x = np.linspace(-1, 1, 9)
    narrow, other = (np.stack([x + c, -((x) ** 2), -2 * x], axis=1) for c in (0.0, 1.5))
    lines = {line["method"]: line for line in _combined({"west": narrow, "east": other})}
    for method in ("fixed, profile", "random, Bayesian"):
        assert np.isnan(lines[method]["coef"])
        assert "the profile of site '" in lines[method]["note"]


def test_weighted_profiles_say_that_weights_count_as_rows():
    found = run("cox", site_tables("cox", sites=SMALL))
    assert "rows weighted by 'w', as if weights were numbers of rows" in found.notes[-1]
    table = found.table.set_index("method")
    assert (table["predicted_upper"] > table["upper"]).tolist() == [False, False, True, True]
    assert not run("poisson", site_tables("poisson", sites=SMALL)).notes
