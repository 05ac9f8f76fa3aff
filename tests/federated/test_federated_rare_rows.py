"""Tables without rare combinations: what sites answer from them, and what it costs."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from federated_data import pooled_fit, site_tables
from owners import owners_of
from scipy import sparse

from steropes import LogisticRegression
from steropes.design_matrix import as_design
from steropes.errors import DataError
from steropes.federated import FederatedPlan, FederatedSite, OwnerRules, Round
from steropes.federated.answer_layout import total_of
from steropes.federated.microaggregation import without_rare_combinations
from steropes.federated.pooled_description import PooledDescription
from steropes.federated.site_rows import read_rows
from steropes.federated.site_sums import linear_predictor
from steropes.studies.federation import federate

SITES = ("north", "south", "west")
REFUSE = OwnerRules(rare_rows="refuse")
LEAST = OwnerRules().least


def columns_of(rng, n, p, share, levels=2):
    X = (rng.random((n, p)) < share).astype(float)
    X[:, 0] = rng.integers(0, levels, n)
    return X


def grouped(X, y, tie=None):
    tie = np.arange(len(X), dtype=np.uint64) if tie is None else tie
    return without_rare_combinations(X, np.ones(len(X)), y, y, tie, LEAST)


def counts(y, X):
    rows, size = np.unique(np.column_stack([y, X]), axis=0, return_counts=True)
    return {tuple(r): k for r, k in zip(rows, size, strict=True)}


@pytest.mark.parametrize(
    ("p", "share", "levels"), [(4, 0.1, 2), (6, 0.3, 2), (3, 0.2, 6), (20, 0.1, 2)]
)
def test_no_combination_of_the_new_table_is_that_of_few_people(p, share, levels, rng):
    X, y = columns_of(rng, 900, p, share, levels), (rng.random(900) < 0.2) * 1
    before = X.copy()
    after, old = counts(y, grouped(X, y)), counts(y, X)
    np.testing.assert_array_equal(X, before)
    assert min(old.values()) < LEAST <= min(after.values())
    # Nobody's rare row is in it either: each combination was frequent, or nobody's.
    assert all(old.get(row, LEAST) >= LEAST for row in after)


def test_a_table_without_rare_combinations_is_left_as_it_is(rng):
    """So that every grouped table could be the table of a site to which nothing was done."""
    X, y = columns_of(rng, 900, 6, 0.3), (rng.random(900) < 0.2) * 1
    once = grouped(X, y)
    np.testing.assert_array_equal(grouped(once, y), once)


def test_grouping_does_not_depend_on_the_order_of_the_rows(rng):
    X, y = columns_of(rng, 700, 5, 0.2), (rng.random(700) < 0.2) * 1
    tie, order = rng.permutation(700).astype(np.uint64), rng.permutation(700)
    np.testing.assert_array_equal(
        grouped(X[order], y[order], tie[order]), grouped(X, y, tie)[order]
    )


def test_sums_of_columns_are_kept_in_each_class(rng):
    X, y = columns_of(rng, 6000, 5, 0.1), (rng.random(6000) < 0.2) * 1
    new = grouped(X, y)
    assert (new != X).any()
    for k in (0, 1):
        np.testing.assert_array_equal(new[y == k].sum(axis=0), X[y == k].sum(axis=0))


def tables_of(rng, n=4000, p=5, share=0.07):
    out = {}
    for k, site in enumerate(SITES):
        X = (rng.random((n, p)) < share).astype(float)
        eta = -1.8 + 0.2 * k + X @ np.linspace(-0.5, 0.7, p)
        d = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)])
        out[site] = d.assign(y=(rng.random(n) < 1 / (1 + np.exp(-eta))) * 1)
    return out


def plan_of(tables, p=5, **more):
    settings = {"model": "logistic", "columns": tuple(f"x{j}" for j in range(p))} | more
    return FederatedPlan(sites=tuple(tables), **settings)


class Heard:
    """Sites with all their messages."""

    def __init__(self, tables, rules=None):
        owners = owners_of(tables, rules or OwnerRules())
        self.sites = {s: FederatedSite(s, d, owners[s]) for s, d in tables.items()}
        self.keys = {s: o.keys.public for s, o in owners.items()}

    def totals(self, plan):
        """The arrays of all totals of a plan."""
        said = {}

        def of(site):
            def answer(plan, request, earlier):
                message = self.sites[site].answer(plan, request, earlier)
                said.setdefault(request.round, (request, []))[1].append(message)
                return message

            return answer

        self.found = federate(plan, {s: of(s) for s in self.sites}, self.keys)
        rounds = [Round(r, tuple(m)) for r, m in said.values()]
        return [total_of(plan, r.request, r.answers).arrays for r in rounds]

    def tables(self, plan):
        """The tables from which the sites answer."""
        out = {}
        for name, site in self.sites.items():
            admission = site._admission(plan)
            with site.owner.ledger.open() as plans:
                admission._update_rows(plans)
            table = admission.rows.table
            out[name] = pd.DataFrame({c: table.column(c) for c in site._data.columns})
        return out


def test_an_ordinary_design_is_answered_close_to_the_fit_of_all_rows(rng):
    tables = tables_of(rng, n=2500, share=0.1)
    plan = plan_of(tables)
    with pytest.raises(DataError, match="fewer than 5 people"):
        federate(plan, {s: FederatedSite(s, d, REFUSE) for s, d in tables.items()})
    found = federate(plan, {s: FederatedSite(s, d) for s, d in tables.items()})
    d = pd.concat([t.assign(site=s) for s, t in tables.items()], ignore_index=True)
    X = pd.concat([pd.get_dummies(d.site).astype(float), d[list(plan.columns)]], axis=1)
    pooled = LogisticRegression(fit_intercept=False).fit(X, d.y)
    se = np.sqrt(np.diag(found.vcov))
    assert np.abs((found.coef - pooled.coef_[3:]) / se).max() < 0.3
    assert "people with a rare combination of values (about 2 % of all)" in found.notes[-1]
    assert "may have been grouped" in found.to_dict()["disclosure"]["description"]


@pytest.mark.parametrize(("rare", "biased"), [(0.0, False), (40.0, False), (60.0, True)])
def test_the_note_says_when_so_many_people_are_grouped_that_estimates_are_biased(rare, biased):
    (note,) = PooledDescription.notes.fget(SimpleNamespace(rare=rare, people=1000))
    assert ("intervals do not include" in note) is biased


@pytest.mark.slow
def test_totals_are_those_of_sites_whose_tables_have_no_small_cells(rng):
    """Bit for bit, over several plans: whatever is computed from them holds for these sites too."""
    tables = tables_of(rng, n=1500)
    plans = [
        plan_of(tables, 2), plan_of(tables, 4), plan_of(tables, 5, model="poisson"),
        plan_of(tables, 3, baseline="common"),
    ]  # fmt: skip
    heard = Heard(tables)
    totals = [heard.totals(plan) for plan in plans]
    others = heard.tables(plans[-1])
    assert any((others[s] != tables[s]).any(axis=None) for s in SITES)
    for name, d in others.items():
        assert d.value_counts().min() >= LEAST
        assert (d.y == tables[name].y).all()
    again = Heard(others)
    for plan, before in zip(plans, totals, strict=True):
        for one, other in zip(before, again.totals(plan), strict=True):
            for field, x in one.items():
                if field != "rare":  # the share of replaced people, in whole percent
                    np.testing.assert_array_equal(x, other[field])


def test_a_second_plan_does_not_change_what_the_first_has_disclosed(rng):
    tables = tables_of(rng, n=1500)
    heard, first, second = Heard(tables), plan_of(tables, 3), plan_of(tables, 5)
    before = heard.totals(first)
    settled = heard.tables(first)
    heard.totals(second)
    later = heard.tables(second)
    for s in SITES:
        pd.testing.assert_frame_equal(later[s][["x0", "x1", "x2"]], settled[s][["x0", "x1", "x2"]])
    for one, other in zip(before, heard.totals(first), strict=True):
        for field, x in one.items():
            np.testing.assert_array_equal(x, other[field])


def test_people_who_leave_the_table_after_a_grouped_plan_are_noticed(rng):
    tables = tables_of(rng, n=1500)
    heard = Heard(tables)
    heard.totals(plan_of(tables))
    fewer = FederatedSite("north", tables["north"].iloc[300:], heard.sites["north"].owner)
    heard.sites["north"] = fewer
    with pytest.raises(DataError, match="people of an earlier plan are no longer in the table"):
        heard.totals(plan_of(tables, tol=1e-7))


def test_a_value_of_few_people_is_refused_in_any_case(rng):
    tables = tables_of(rng)
    tables["north"]["x1"] = (np.arange(4000) < 4) * 1.0
    with pytest.raises(DataError, match=r"fewer than 5 people have one of the values of 'x1'"):
        Heard(tables).totals(plan_of(tables))


def test_the_stricter_of_plan_and_owner_decides(rng):
    tables = tables_of(rng)
    assert OwnerRules().with_plan(plan_of(tables, rare_rows="refuse")).rare_rows == "refuse"
    assert REFUSE.with_plan(plan_of(tables)).rare_rows == "refuse"
    with pytest.raises(DataError, match="was refused"):
        Heard(tables).totals(plan_of(tables, rare_rows="refuse"))
    with pytest.raises(DataError, match="rare_rows must be one of"):
        plan_of(tables, rare_rows="mean")


@pytest.mark.parametrize("baseline", ["site", pytest.param("common", marks=pytest.mark.slow)])
def test_events_and_times_of_a_survival_model_keep_their_people(baseline, rng):
    tables = {}
    for site, d in tables_of(rng, n=3000).items():
        t, c = rng.exponential(np.exp(0.5 - 0.4 * d.x0)), rng.uniform(0.5, 2, 3000)
        tables[site] = d.assign(t=np.minimum(t, c), y=(t <= c) * 1)
    more = {"baseline": "common", "times": (0.5, 1.0, 2.0)} if baseline == "common" else {}
    plan = plan_of(tables, model="cox", outcome="t", event="y", **more)
    heard = Heard(tables, OwnerRules(answers_per_cell=10.0))
    heard.totals(plan)
    for s, d in heard.tables(plan).items():
        assert (d[["t", "y"]] == tables[s][["t", "y"]]).all(axis=None)
        grid = np.searchsorted((0.5, 1.0, 2.0), d.t) if more else np.zeros(len(d))
        cells = d.drop(columns="t").assign(at=grid).value_counts()
        assert cells.min() >= LEAST
        assert (d != tables[s]).any(axis=None)


def test_weights_and_many_valued_columns_stay_as_they_are(rng):
    tables = {}
    for site, d in tables_of(rng).items():
        tables[site] = d.assign(age=rng.normal(60, 9, 4000), w=(rng.random(4000) < 0.8) * 1.0)
    plan = plan_of(tables, columns=("x0", "x1", "x2", "age"), weight="w")
    heard = Heard(tables)
    heard.totals(plan)
    for s, d in heard.tables(plan).items():
        same = [c for c in d if c not in ("x0", "x1", "x2")]
        pd.testing.assert_frame_equal(d[same], tables[s][same].astype(float), check_dtype=False)


def test_models_within_strata_are_refused_as_before():
    tables = site_tables("conditional")
    tables = {s: d.assign(rare=(np.arange(len(d)) < 7) * 1.0) for s, d in tables.items()}
    plan = FederatedPlan("conditional", ("rare", "drug"), tuple(tables), strata="set")
    with pytest.raises(DataError, match="fewer than 5 people"):
        federate(plan, {s: FederatedSite(s, d) for s, d in tables.items()})


def test_without_rare_rows_the_estimate_is_that_of_all_rows():
    tables = site_tables("logistic", sites={"north": 900, "south": 900, "west": 900})
    plan = FederatedPlan(
        "logistic", ("drug", "year", "marker"), tuple(tables), weight="w", offset="o"
    )
    rules = replace(OwnerRules(), levels=2)
    found = federate(plan, {s: FederatedSite(s, d, rules) for s, d in tables.items()})
    np.testing.assert_allclose(found.coef, pooled_fit("logistic", tables).coef_[3:], rtol=1e-7)


@pytest.mark.parametrize("kind", ["sparse", "array", "frame", "polars", "design", "index"])
def test_values_are_replaced_in_each_kind_of_table(kind, rng):
    tables = tables_of(rng, n=600, p=3, share=0.2)
    plan, d = plan_of(tables, 3), tables["north"]
    X = d[["x0", "x1", "x2"]]
    new = 1.0 - X["x1"].to_numpy()
    given = {
        "sparse": {"X": sparse.csr_array(X.to_numpy()), "y": d.y},
        "array": {"X": X.to_numpy(), "y": d.y},
        "frame": {"X": X, "y": d.y}, "polars": pl.from_pandas(d),
        "design": {"X": as_design(X), "y": d.y}, "index": d.set_index(np.arange(600)[::-1]),
    }[kind]  # fmt: skip
    rows, plain = read_rows(given, plan, 0, {"x1": new}), read_rows(given, plan)
    np.testing.assert_array_equal(rows.table.column("x1"), new)
    np.testing.assert_array_equal(plain.table.column("x1"), 1.0 - new)
    np.testing.assert_array_equal(rows.table.contents, plain.table.contents)
    for name in ("x0", "x2", "y"):
        np.testing.assert_array_equal(rows.table.column(name), d[name])
    beta = np.array([[0.0, 1.0, 0.5]])
    eta = np.column_stack([X["x0"], new, X["x2"]]) @ beta[0]
    found = linear_predictor(rows, beta[0], 0.0, np.zeros(3))[:, 0]
    np.testing.assert_allclose(found, eta, atol=1e-12)
    outcome = read_rows(given, plan, 0, {"y": 1 - d.y.to_numpy()})
    np.testing.assert_array_equal(outcome.y, 1 - d.y)
