"""What a site does not let out, and that it says so."""

import numpy as np
import pandas as pd
import pytest
from federated_data import COLUMNS, ROLES, site_tables

from steropes.errors import DataError
from steropes.federated import CellRules, FederatedPlan, FederatedSite
from steropes.studies import federate


def run(tables, rules=None, model="logistic", columns=COLUMNS, **more):
    plan = FederatedPlan(
        model=model, columns=columns, sites=tuple(tables), **{**ROLES[model], **more}
    )
    return federate(plan, {s: FederatedSite(s, d, rules) for s, d in tables.items()})


def with_rare(tables, people, events=None):
    """A 0/1 column that a few people of one site have."""
    out = {s: d.assign(rare=0.0) for s, d in tables.items()}
    d = out["north"]
    if events is None:
        at = d.index[:people]
    else:
        at = d.index[d.y > 0][:events].append(d.index[d.y == 0][: people - events])
    out["north"] = d.assign(rare=d.index.isin(at).astype(float))
    out["south"] = out["south"].assign(rare=(np.arange(len(out["south"])) % 3 == 0) * 1.0)
    return out


def test_sites_with_counts_that_are_large_answer():
    assert run(site_tables("logistic")).converged


@pytest.mark.parametrize("people", [1, 4])
def test_a_rare_column_refuses_and_is_named(people):
    tables = with_rare(site_tables("logistic"), people)
    with pytest.raises(DataError, match=r"site 'north': fewer than 5 people differ .*'rare'"):
        run(tables, columns=(*COLUMNS, "rare"))


def test_no_one_with_a_column_is_no_small_count():
    tables = with_rare(site_tables("logistic"), 0)
    assert run(tables, columns=(*COLUMNS, "rare")).converged


def test_events_among_few_refuse():
    tables = with_rare(site_tables("logistic"), 40, events=3)
    with pytest.raises(DataError, match=r"have the event and 'rare'"):
        run(tables, columns=(*COLUMNS, "rare"))
    rules = CellRules(checks=("rows", "columns", "pairs"))
    assert run(tables, rules, columns=(*COLUMNS, "rare")).converged


@pytest.mark.parametrize(
    ("people", "events", "said"),
    [(40, 37, "have no event but 'rare'"), (60, -3, "have the event and( not)? 'rare'")],
)
def test_what_is_left_of_a_count_may_be_too_little(people, events, said):
    tables = site_tables("logistic")
    cases = int((tables["north"].y > 0).sum())
    tables = with_rare(tables, cases + 20 if events < 0 else people, cases * (events < 0) + events)
    with pytest.raises(DataError, match=said):
        run(tables, columns=(*COLUMNS, "rare"))


def test_pairs_refuse_a_hessian():
    tables = with_rare(site_tables("logistic"), 60)
    d = tables["north"]
    keep = d.index[(d.rare > 0) & (d.drug > 0)][2:]
    tables["north"] = d.assign(drug=d.drug.where(~d.index.isin(keep), 0.0))
    with pytest.raises(DataError, match=r"round 1 \(evaluate\) was refused.*both 'drug' and"):
        run(tables, columns=(*COLUMNS, "rare"))
    rules = CellRules(checks=("rows", "columns", "events"))
    assert run(tables, rules, columns=(*COLUMNS, "rare")).converged


def test_few_people_and_few_events_refuse():
    tables = site_tables("logistic")
    with pytest.raises(DataError, match="fewer than 5 people"):
        run(tables | {"west": tables["west"].iloc[:4]})
    few = tables["west"].assign(y=(np.arange(len(tables["west"])) < 3).astype(int))
    with pytest.raises(DataError, match="fewer than 5 people have the event"):
        run(tables | {"west": few})


def test_people_not_rows_are_counted_within_strata():
    tables = site_tables("sccs")
    d = tables["north"].assign(rare=0.0)
    d.loc[d.set == d.set[0], "rare"] = 1.0  # four intervals of one person
    d.loc[d.set == d.set[8], "rare"] = [1.0, 0.0, 1.0, 1.0]
    tables = {s: t.assign(rare=0.0) for s, t in tables.items()} | {"north": d}
    with pytest.raises(DataError, match="'rare'"):
        run(tables, CellRules(5), "sccs", columns=(*COLUMNS, "rare"))


def test_event_times_of_single_people_refuse_and_a_grid_does_not():
    tables = site_tables("cox")
    with pytest.raises(DataError, match=r"people have the event at .* times: make the grid"):
        run(tables, model="cox", baseline="common")
    coarse = (0.4, 0.8, 1.6, 20.0)
    rules = CellRules(checks=("rows", "columns", "pairs", "times"))
    tables = {s: d.drop(columns="e") for s, d in tables.items()}
    found = run(tables, rules, "cox", baseline="common", times=coarse, entry=None)
    assert found.converged


def test_what_a_grid_tells_of_a_fold_or_of_other_causes_may_be_too_little():
    rules = CellRules(checks=("times", "folds"))
    for model, more, said in (
        ("cox", {"prior": "normal", "folds": 12}, r"in fold \d+ fewer than 5 people .* some of"),
        ("fine_gray", {}, "'north': fewer than 5 people have a competing event at some of the"),
    ):
        tables = {s: d.drop(columns="e") for s, d in site_tables(model).items()}
        with pytest.raises(DataError, match=said):
            run(tables, rules, model, baseline="common", entry=None, times=(0.4, 0.8, 1.6, 20.0),
                **more)  # fmt: skip


def test_a_refusal_holds_no_numbers():
    tables = with_rare(site_tables("logistic"), 2)
    plan = FederatedPlan(model="logistic", columns=("rare",), sites=("north",), **ROLES["logistic"])
    from steropes.federated import Message

    request = Message("request", plan.study, 0, "describe")
    message = FederatedSite("north", tables["north"]).answer(plan, request)
    assert message.kind == "refusal"
    assert not message.values
    assert not message.arrays


def test_what_is_wrong_with_rows_stays_at_the_site():
    tables = site_tables("logistic")
    tables["west"] = tables["west"].assign(y=2)
    with pytest.raises(DataError, match=r"site 'west': the outcome must be 0 or 1"):
        run(tables)
    with pytest.raises(DataError, match="has no column 'marker'"):
        run(tables | {"west": tables["west"].drop(columns="marker")})


@pytest.mark.parametrize("least", [-1, 2.5, True])
def test_rules_are_checked(least):
    with pytest.raises(DataError, match="whole number"):
        CellRules(least)
    with pytest.raises(DataError, match="no check 'columms'"):
        CellRules(checks=("columms",))


def test_nothing_that_was_passed_in_is_changed():
    tables = site_tables("cox")
    before = {s: d.copy() for s, d in tables.items()}
    run(tables, CellRules(0), "cox")
    for s in tables:
        pd.testing.assert_frame_equal(tables[s], before[s])
