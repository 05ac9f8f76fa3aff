"""Attacks by the roles of columns: whatever a plan names is disclosed, not only its covariates."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from owners import owners_of

from steropes.errors import DataError
from steropes.federated import FederatedPlan, FederatedSite, OwnerRules
from steropes.studies.federation import federate

SITES = ("north", "south", "west")
REFUSE = OwnerRules(rare_rows="refuse")


def plan_of(columns, sites=SITES, **more):
    return FederatedPlan(**({"model": "logistic", "outcome": "y"} | more), columns=tuple(columns),
                         sites=tuple(sites))  # fmt: skip


class Sites:
    """Sites whose owners remember the plans that they answered."""

    def __init__(self, tables, rules=None):
        self.owners = owners_of(tables, rules or OwnerRules())
        self.sites = {s: FederatedSite(s, d, self.owners[s]) for s, d in tables.items()}

    def answer(self, plan):
        return federate(plan, {s: self.sites[s] for s in plan.sites})

    def refusal(self, plan):
        with pytest.raises(DataError) as said:
            self.answer(plan)
        return str(said.value)


def visits_of(rng, n=4000, sites=SITES):
    out = {}
    for site in sites:
        t = np.ceil(rng.exponential(80, n))
        out[site] = pd.DataFrame({
            "drug": (rng.random(n) < 0.4) * 1.0, "age": rng.normal(60, 10, n),
            "visits": rng.negative_binomial(1, 0.1, n) * 1.0, "t": np.minimum(t, 120),
            "y": (t < 120) * 1,
        })  # fmt: skip
    return out


@pytest.mark.sampled
@pytest.mark.parametrize(
    "more",
    [
        {"model": "cox", "outcome": "t", "event": "y"},
        {"model": "cox", "outcome": "t", "event": "y", "baseline": "common",
         "times": (30.0, 60.0, 120.0)},
        {"model": "logistic"},
        {"model": "logistic", "baseline": "common"},
        {"model": "poisson"},
    ],
)  # fmt: skip
def test_an_offset_cannot_pick_the_person_with_its_largest_value(more, rng):
    """The sums of exp(offset) would be those of one person: the mean is this person's row."""
    tables = visits_of(rng)
    said = Sites(tables).refusal(plan_of(["drug", "age"], offset="visits", **more))
    assert "one person would dominate the totals by the values of 'visits'" in said


def test_a_weight_cannot_pick_the_person_with_its_largest_value(rng):
    tables = visits_of(rng)
    for site, d in tables.items():
        w = np.exp(d.visits.clip(upper=20) + rng.normal(0, 0.1, len(d)))
        w[d.visits.idxmax()] = w.sum()
        tables[site] = d.assign(w=w / w.mean())
    assert "dominate the totals by the values of 'w'" in Sites(tables).refusal(
        plan_of(["drug", "age"], weight="w")
    )


def test_a_risk_set_cannot_be_picked_by_an_offset_of_those_still_at_risk(rng):
    """The offset is harmless among all people, but not among those at risk at the end."""
    tables = visits_of(rng)
    for site, d in tables.items():
        offset = np.where(d.t < 60, 3.0, 0.0)
        last = d.index[(d.t >= 120)][0]
        tables[site] = d.assign(
            o=np.where(d.index == last, 7.0, offset + rng.normal(0, 0.01, 4000))
        )
    roles = {"model": "cox", "outcome": "t", "event": "y", "baseline": "common"}
    said = Sites(tables).refusal(plan_of(["drug"], offset="o", times=(59.0, 119.0, 120.0), **roles))
    assert "dominate" in said


def test_ordinary_offsets_and_weights_are_answered(rng):
    tables = visits_of(rng)
    for site, d in tables.items():
        n = len(d)
        tables[site] = d.assign(o=rng.normal(0, 0.5, n), w=rng.uniform(0.2, 5, n))
    assert Sites(tables).answer(plan_of(["drug", "age"], offset="o", weight="w")).converged


def one_without(rng, n=1500):
    """Drug and hiv, and one person at each site with the drug and without hiv."""
    out = {}
    for site in SITES:
        hiv = (np.arange(n) % 3 == 0) * 1.0
        drug = hiv * (rng.random(n) < 0.6)
        drug[1] = 1.0
        y = (rng.random(n) < 0.3) * 1
        out[site] = pd.DataFrame({"drug": drug, "hiv": hiv, "y": y})
    return out


def test_a_weight_opens_no_cell_that_a_pair_of_columns_would_not(rng):
    tables = one_without(rng)
    pair = Sites(tables, REFUSE).refusal(plan_of(["drug", "hiv"]))
    assert "'drug' and 'hiv'" in pair
    sites = Sites(tables, REFUSE)
    assert sites.answer(plan_of(["drug"])).converged
    said = sites.refusal(plan_of(["drug"], weight="hiv"))
    assert "fewer than 5 people" in said


def test_a_weight_opens_no_cell_in_the_other_order(rng):
    sites = Sites(one_without(rng), REFUSE)
    assert sites.answer(plan_of(["drug"], weight="hiv")).converged
    assert "fewer than 5 people" in sites.refusal(plan_of(["drug"]))


def test_weights_that_leave_out_different_people_are_compared_by_person(rng):
    """Equal numbers of people, so that their difference is no difference of numbers."""
    tables = {}
    for site in SITES:
        x = rng.normal(size=900)
        d = pd.DataFrame({"x": x, "y": rng.integers(0, 2, 900)})
        tables[site] = d.assign(one=(np.arange(900) != 3) * 1.0, two=(np.arange(900) != 7) * 1.0)
    sites = Sites(tables, OwnerRules(levels=2))
    for d in tables.values():
        assert d.one.sum() == d.two.sum()
    _answers(sites, plan_of(["x"], weight="one"))
    assert "fewer than 5 people" in sites.refusal(plan_of(["x"], weight="two"))


@pytest.mark.parametrize("people", [1, 4, 300])
def test_tables_that_exchange_people_are_compared_by_person(people, rng):
    """The new table has as many rows, but some are other people's."""
    d = pd.DataFrame({"x": rng.normal(size=1200), "y": rng.integers(0, 2, 1200)})
    tables = dict.fromkeys(SITES, d.iloc[:900])
    sites = Sites(tables, OwnerRules(answers_per_cell=1.0))
    sites.answer(plan_of(["x"]))
    later = d.iloc[people : 900 + people]
    sites.sites["north"] = FederatedSite("north", later, sites.owners["north"])
    second = plan_of(["x"], tol=1e-7)
    if people < 5:
        assert "fewer than 5 people, who would follow" in sites.refusal(second)
    else:
        assert sites.answer(second).converged


def test_three_sets_of_people_are_compared_together(rng):
    """Each two differ by many people, but the first and second less the third is one person."""
    n = 3000
    third = np.arange(n) % 3
    a, b, c = (third != 0), (third != 1), (third != 2)
    c[0] = ~c[0]
    tables = dict.fromkeys(SITES, pd.DataFrame({
        "x": rng.normal(size=n), "y": rng.integers(0, 2, n), "a": a * 1.0, "b": b * 1.0,
        "c": c * 1.0}))  # fmt: skip
    sites = Sites(tables, OwnerRules(answers_per_cell=1e9))
    assert sites.answer(plan_of(["x"], weight="a")).converged
    assert sites.answer(plan_of(["x"], weight="b")).converged
    assert "fewer than 5 people" in sites.refusal(plan_of(["x"], weight="c"))


def four(rng, n=2000):
    out = {}
    for site in (*SITES, "east"):
        out[site] = pd.DataFrame({
            "drug": (rng.random(n) < 0.4) * 1.0, "sex": (rng.random(n) < 0.5) * 1.0,
            "y": (rng.random(n) < 0.3) * 1})  # fmt: skip
    return out


@pytest.mark.sampled
@pytest.mark.parametrize(
    "second",
    [
        {"columns": ["y"], "outcome": "drug"},  # the roles exchanged
        {"columns": ["sex"], "outcome": "drug"},  # disjoint columns
        {"columns": ["sex"], "outcome": "y"},
        {"columns": ["sex"], "model": "poisson"},
    ],
)
def test_plans_that_differ_by_a_site_are_refused_whatever_their_columns(second, rng):
    tables = four(rng)
    sites = Sites(tables)
    assert sites.answer(plan_of(["drug"], sites=tuple(tables))).converged
    assert "the sums of single ones would follow" in sites.refusal(plan_of(**second))


def test_three_plans_cannot_single_out_a_site_that_is_in_only_one(rng):
    """All less two groups is one site, which none of the groups can see by itself."""
    names = ("a", "b", "c", "d", "e", "f", "g")
    tables = {s: four(rng)["east"] for s in names}
    sites = Sites(tables)
    assert sites.answer(plan_of(["drug"], sites=names)).converged
    assert "other sites" in sites.refusal(plan_of(["drug"], sites=names[1:4]))
    assert "other sites" in sites.refusal(plan_of(["sex"], sites=names[4:]))


def test_tables_of_pairs_do_not_determine_a_small_cell_of_three_columns(rng):
    """Each plan has large cells, but the three tables of pairs determine that of all three."""
    cells = {(0, 0, 0): 500, (0, 0, 1): 300, (0, 1, 0): 300, (1, 0, 0): 300, (0, 1, 1): 100,
             (1, 0, 1): 100, (1, 1, 0): 60, (1, 1, 1): 2}  # fmt: skip
    X = np.repeat(np.array(list(cells)), list(cells.values()), axis=0)
    d = pd.DataFrame(X.astype(float), columns=["a", "b", "y"])
    sites = Sites(dict.fromkeys(SITES, d), REFUSE)
    plans = [plan_of(["a"]), plan_of(["b"]), plan_of(["a"], outcome="b")]
    assert sites.answer(plans[0]).converged
    said = sites.refusal(plans[1]) if not _answers(sites, plans[1]) else sites.refusal(plans[2])
    assert "fewer than 5 people" in said


def _answers(sites, plan):
    try:
        return sites.answer(plan).converged
    except DataError:
        return False


def test_one_value_that_outweighs_all_others_is_refused(rng):
    """The variance of a column would be this person's value."""
    tables = {s: d.assign(costs=rng.lognormal(3, 0.5, len(d))) for s, d in visits_of(rng).items()}
    assert Sites(tables).answer(plan_of(["costs"])).converged
    tables["north"].loc[0, "costs"] = 1e6
    assert "dominate the totals by the values of 'costs'" in Sites(tables).refusal(
        plan_of(["costs"])
    )


def test_a_ledger_holds_no_values_of_its_rows(rng, tmp_path):
    from steropes.federated import Owner

    tables = four(rng)
    owners = {s: Owner.create(tmp_path / s) for s in SITES}
    for name, owner in owners.items():
        owner.peers = {s: o.keys.public for s, o in owners.items() if s != name}
    sites = {s: FederatedSite(s, tables[s], owners[s]) for s in SITES}
    federate(plan_of(["drug"]), sites)
    federate(plan_of(["sex"]), sites)
    with owners["north"].ledger.open() as north, owners["south"].ledger.open() as south:
        assert len(north) == 2
        assert north[1].members == f"={north[0].study}"  # the same rows are kept once
        assert north[0].members != south[0].members
        assert len(north[0].members) < 12 * len(tables["north"])
    again = Owner.open(tmp_path / "north")
    site = FederatedSite("north", tables["north"].iloc[1:], again)
    with pytest.raises(DataError, match="fewer than 5 people, who would follow"):
        federate(replace(plan_of(["sex"]), tol=1e-7), sites | {"north": site})
