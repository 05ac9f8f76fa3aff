"""What a site does not let out, and that it says so."""

import numpy as np
import pandas as pd
import pytest
from federated_data import run, site_tables

from steropes.errors import DataError
from steropes.federated import FederatedPlan, FederatedSite, OwnerRules
from steropes.federated.site_rows import read_rows
from steropes.federated.small_cells import SiteCells

SITES = ("north", "south", "west")
RULES = OwnerRules(
    answers_per_cell=1e9, rare_rows="refuse"
)  # cells alone, however many numbers are told


def tables_of(n=400, seed=3):
    rng = np.random.default_rng(seed)
    out = {}
    for site in SITES:
        drug = (np.arange(n) % 3 == 0) * 1.0
        age = rng.normal(60, 10, n)
        y = (rng.random(n) < 1 / (1 + np.exp(1 - 0.5 * drug))) * 1
        out[site] = pd.DataFrame({"drug": drug, "age": age, "y": y})
    return out


def plan_of(tables, columns=("drug", "age"), **more):
    settings = {"model": "logistic", "outcome": "y"} | more
    return FederatedPlan(columns=columns, sites=tuple(tables), **settings)


def with_column(tables, x, name="rare"):
    """A column of the first site; at the others it is common."""
    out = {s: d.assign(**{name: (np.arange(len(d)) % 2) * 1.0}) for s, d in tables.items()}
    return out | {"north": out["north"].assign(**{name: x})}


def test_sites_with_counts_that_are_large_answer():
    tables = tables_of()
    assert run(plan_of(tables), tables, OwnerRules()).converged


@pytest.mark.parametrize("people", [1, 4])
@pytest.mark.parametrize("least_value", [0.0, 1.0])
def test_a_rare_value_refuses_and_is_named(people, least_value):
    """Of a 0/1 column few ones are as telling as few zeros."""
    tables = tables_of()
    x = np.where(np.arange(400) < people, 1 - least_value, least_value)
    tables = with_column(tables, x)
    with pytest.raises(DataError, match=r"site 'north': fewer than 5 people have one .* 'rare'"):
        run(plan_of(tables, ("drug", "rare")), tables, RULES)


def test_each_level_of_a_column_with_three_values_counts():
    tables = tables_of()
    tables = with_column(tables, np.where(np.arange(400) < 3, 2.0, np.arange(400) % 2))
    with pytest.raises(DataError, match=r"'north': fewer than 5 people have one .* 'rare'"):
        run(plan_of(tables, ("drug", "rare")), tables, RULES)


@pytest.mark.parametrize("few", ["11", "10", "01", "00"])
def test_all_four_cells_of_a_pair_count(few):
    """Those with one column and not the other follow by subtraction."""
    tables = tables_of()
    a, b = (np.arange(400) % 2) * 1.0, (np.arange(400) // 2 % 2) * 1.0
    at = np.flatnonzero((a == float(few[0])) & (b == float(few[1])))[2:]
    b[at] = 1 - b[at]
    tables = with_column(with_column(tables, a, "a"), b, "b")
    with pytest.raises(DataError, match=r"'north': fewer than 5 people .* 'a' and 'b'"):
        run(plan_of(tables, ("a", "b")), tables, RULES)


@pytest.mark.parametrize("outcome", [0, 1])
@pytest.mark.parametrize("having", [0.0, 1.0])
def test_people_with_and_without_the_event_count_at_each_level(outcome, having):
    tables = tables_of()
    d = tables["north"]
    few = d.index[(d.drug == having) & (d.y == outcome)][3:]
    tables["north"] = d.assign(y=d.y.where(~d.index.isin(few), 1 - outcome))
    with pytest.raises(DataError, match=r"'north': fewer than 5 people .* 'drug' and 'y'"):
        run(plan_of(tables), tables, RULES)


def test_no_one_at_a_level_is_no_small_count():
    tables = tables_of()
    d = tables["north"]
    tables["north"] = d.assign(drug=0.0)
    assert run(plan_of(tables, baseline="common"), tables, RULES).converged


@pytest.mark.parametrize("model", ["conditional", "sccs"])
def test_people_not_rows_are_counted_within_strata(model):
    tables = site_tables(model)
    tables = {s: d.assign(rare=(np.arange(len(d)) % 2) * 1.0) for s, d in tables.items()}
    d = tables["north"].assign(rare=0.0)
    d.loc[d.set.isin(d.set.unique()[:3]), "rare"] = 1.0  # twelve rows of three people
    tables["north"] = d
    roles = {"strata": "set"} | ({"exposure": "t"} if model == "sccs" else {})
    plan = plan_of(tables, ("rare", "marker"), model=model, **roles)
    with pytest.raises(DataError, match=r"'north': fewer than 5 people .*'rare'"):
        run(plan, tables, RULES)


def grid_tables(seed=4):
    rng = np.random.default_rng(seed)
    out = {}
    for site in SITES:
        x = (rng.random(600) < 0.4) * 1.0
        t = np.ceil(rng.exponential(60, 600))
        out[site] = pd.DataFrame({"x": x, "t": np.minimum(t, 90), "y": (t <= 90) * 1})
    return out


def cox_plan(tables, times, **more):
    return FederatedPlan(
        model="cox", columns=("x",), sites=tuple(tables), outcome="t", event="y",
        baseline="common", times=times, **more,
    )  # fmt: skip


def test_times_of_a_grid_count_with_events_and_columns():
    tables = grid_tables()
    assert run(cox_plan(tables, (30, 60, 90)), tables, RULES).converged
    tables = {s: _few_at_89(d) for s, d in tables.items()}
    with pytest.raises(DataError, match=r"fewer than 5 people .* 't'"):
        run(cox_plan(tables, (30, 60, 89, 90)), tables, RULES)


def _few_at_89(d):
    late = (d.t > 60) & (d.t <= 89)
    return d.assign(t=np.where(late & (np.cumsum(late) > 2), 60.0, d.t))


def test_too_many_coefficients_for_the_people_refuse(rng):
    """38 columns on 40 rows."""
    X = {f"x{j}": rng.normal(size=40) for j in range(38)}
    tables = {s: pd.DataFrame(X | {"y": np.arange(40) % 2}) for s in SITES}
    plan = plan_of(tables, tuple(X), prior="normal")
    with pytest.raises(DataError, match=r"more than 0.33 coefficients for each person"):
        run(plan, tables, RULES)


def test_few_people_and_few_events_refuse():
    tables = tables_of()
    rules = OwnerRules(answers_per_cell=1e9, parameters_per_row=1.0)
    with pytest.raises(DataError, match="fewer than 5 people"):
        run(plan_of(tables, ("age",)), tables | {"west": tables["west"].iloc[:4]}, rules)
    few = tables["west"].assign(y=(np.arange(400) < 3) * 1)
    with pytest.raises(DataError, match=r"fewer than 5 people have one of the values of 'y'"):
        run(plan_of(tables), tables | {"west": few}, rules)


def test_a_plan_can_be_stricter_than_the_owner_but_not_laxer():
    tables = tables_of()
    with pytest.raises(DataError, match="fewer than 150 people"):
        run(plan_of(tables, min_cell=150), tables, RULES)
    few = tables["west"].assign(drug=(np.arange(400) < 3) * 1.0)
    with pytest.raises(DataError, match="fewer than 5 people"):
        run(plan_of(tables, min_cell=1), tables | {"west": few}, RULES)
    with pytest.raises(DataError, match="min_sites must be at least 3"):
        plan_of(tables, min_sites=2)
    with pytest.raises(DataError, match="needs at least 4 sites"):
        plan_of(tables, min_sites=4)


@pytest.mark.parametrize("seed", range(4))
def test_cells_are_those_of_cross_tables(seed):
    """Against a table a pair, of columns with two to four values, dense and sparse."""
    rng = np.random.default_rng(seed)
    n = 60
    d = pd.DataFrame({f"x{j}": rng.integers(0, 2 + j, n) * 1.0 for j in range(3)})
    d["y"] = rng.integers(0, 2, n)
    tables = dict.fromkeys(SITES, d)
    plan = plan_of(tables, ("x0", "x1", "x2"))
    cells = SiteCells(read_rows(d, plan), plan, RULES)
    small = cells._small_pairs(cells.covariates, cells.outcomes, np.ones(n, bool), True)
    expected = set()
    for a in d:
        if d[a].value_counts().lt(5).any():
            expected.add((a,))
        for b in d.columns[d.columns.get_loc(a) + 1 :]:
            counts = pd.crosstab(d[a], d[b])
            if ((counts > 0) & (counts < 5)).any(axis=None):
                expected.add((a, b))
    assert set(small) == expected


def test_a_refusal_holds_no_numbers_of_the_data():
    tables = tables_of()
    tables["north"] = tables["north"].assign(drug=(np.arange(400) < 2) * 1.0)
    with pytest.raises(DataError) as said:
        run(plan_of(tables), tables, RULES)
    text = str(said.value).split("'north'")[1].replace("fewer than 5", "")
    assert not any(c.isdigit() for c in text)


def test_errors_in_rows_stay_at_the_site():
    tables = tables_of()
    with pytest.raises(DataError, match=r"site 'west': the outcome must be 0 or 1"):
        run(plan_of(tables), tables | {"west": tables["west"].assign(y=2)})
    with pytest.raises(DataError, match="has no column 'age'"):
        run(plan_of(tables), tables | {"west": tables["west"].drop(columns="age")})


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"least": -1}, "least must be a whole number"),
        ({"least": 2.5}, "least must be a number"),
        ({"sites": 2}, "sites must be at least 3"),
        ({"methods": ("guess",)}, "methods must be one of"),
        ({"per_site": ("rows",)}, "per_site must be one of"),
        ({"predictor": 0.0}, "predictor must be a positive number"),
    ],
)
def test_rules_are_checked(rule, said):
    with pytest.raises(DataError, match=said):
        OwnerRules(**rule)


def test_nothing_that_was_passed_in_is_changed():
    tables = tables_of()
    before = {s: d.copy() for s, d in tables.items()}
    run(plan_of(tables), tables)
    for s in tables:
        pd.testing.assert_frame_equal(tables[s], before[s])


def test_a_site_does_not_show_its_people():
    assert repr(FederatedSite("north", tables_of()["north"])) == "FederatedSite('north')"
