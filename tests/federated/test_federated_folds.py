"""Folds at the sites choose the variance that the same folds choose on one machine."""

import json

import numpy as np
import pytest
from federated_data import COLUMNS, ROLES, pooled_fit, run, site_tables
from federated_data import plan_of as plain_plan_of
from owners import owners_of

from steropes import (
    CrossValidation,
    Laplace,
    LogisticRegression,
    Normal,
    NotConvergedWarning,
    SeparationError,
)
from steropes.errors import DataError
from steropes.federated import (
    FederatedPlan,
    FederatedSite,
    OwnerRules,
    WaitingError,
    concurrent_fits,
)
from steropes.studies.federation import (
    federate_answer,
    federate_finish,
    federate_init,
    federate_step,
)
from tuning import tune

PRIORS = {"laplace": Laplace(), "normal": Normal()}
SMALL = {"north": 140, "south": 160, "west": 100}


def tables_of(model):
    """Columns of like spread, so that one variance says something of each."""
    tables = site_tables(model, sites=SMALL)
    return {s: d.assign(year=(d.year - 2010) / 5, marker=d.marker * 1e6)
            for s, d in tables.items()}  # fmt: skip


def plan_of(model, tables, **more):
    return plain_plan_of(model, tables, **{"prior": "laplace", "folds": 3, "seed": 2} | more)


def same_folds(plan, tables):
    """The sites' folds as splits of all rows in one place."""
    held = np.concatenate([FederatedSite(s, d).folds(plan) for s, d in tables.items()])
    return [(np.flatnonzero(~out), np.flatnonzero(out)) for out in held.T]


def pooled(plan, tables, **more):
    cv = CrossValidation(same_folds(plan, tables), search=plan.search or "auto", **more)
    return pooled_fit(plan.model, tables, plan.baseline, PRIORS[plan.prior], cv=cv)


def assert_same(found, whole):
    assert found.variance == whole.variance_
    own, one = found.cv_results, whole.cv_results_
    assert np.array_equal(own["variance"], one["variance"])
    folds = [c for c in own.columns if c.startswith("fold")]
    assert own[folds].to_numpy() == pytest.approx(one[folds].to_numpy(), rel=1e-6)
    b = found.coef[len(found.plan.intercepts) :]
    assert np.abs(b - whole.coef_[-len(COLUMNS) :]).max() < 1e-8 * np.abs(b).max()
    assert found.converged


@pytest.mark.sampled
@pytest.mark.parametrize("model", list(ROLES))
def test_the_choice_is_that_of_the_same_folds_on_one_machine(model):
    tables = tables_of(model)
    prior = "normal" if model in ("linear", "cox", "sccs") else "laplace"
    plan = plan_of(model, tables, prior=prior, search=(0.01, 0.1, 1.0))
    found = run(plan, tables)
    assert_same(found, pooled(plan, tables))
    assert found.rounds <= 14


@pytest.mark.parametrize("baseline", ["site", "common"])
def test_each_fold_has_its_own_distribution_of_entry(baseline):
    tables = tables_of("fine_gray")
    more = {"entry": "e", "baseline": baseline}
    plan = plan_of("fine_gray", tables, prior="laplace", search=(0.01, 0.1), **more)
    cv = CrossValidation(same_folds(plan, tables), search=plan.search)
    assert_same(
        run(plan, tables), pooled_fit("fine_gray", tables, baseline, Laplace(), True, cv=cv)
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", ["cox", "fine_gray"])
def test_the_choice_with_one_baseline_hazard_is_that_of_one_machine(model):
    tables = tables_of(model)
    plan = plan_of(model, tables, baseline="common", prior="laplace", search=(0.01, 0.1))
    found = run(plan, tables)
    assert_same(found, pooled(plan, tables))
    assert found.rounds <= 16


@pytest.mark.parametrize("baseline", ["site", "common"])
def test_the_walk_is_that_of_one_machine_in_few_rounds(baseline):
    tables = tables_of("logistic")
    plan = plan_of("logistic", tables, baseline=baseline)
    found = run(plan, tables)
    assert_same(found, pooled(plan, tables))
    assert found.rounds <= 25
    assert found.revealed()["tells"].str.contains("fold").sum() >= found.rounds - 1


@pytest.mark.slow
def test_repeats_and_the_one_standard_error_rule():
    tables = tables_of("logistic")
    plan = plan_of(
        "logistic", tables, repeats=2, rule="one_standard_error", search=(0.003, 0.02, 0.1, 0.5)
    )
    found = run(plan, tables)
    best = run(plan_of("logistic", tables, repeats=2, search=plan.search), tables)
    assert np.array_equal(found.cv_results["mean"], best.cv_results["mean"])
    mean, se = (found.cv_results[c].to_numpy() for c in ("mean", "se"))
    within = mean >= mean.max() - np.sqrt(2) * se[mean.argmax()]
    assert found.variance == found.cv_results["variance"][within].min()
    assert best.variance == found.cv_results["variance"][mean.argmax()]


def test_groups_stay_in_one_fold_and_seeds_cut_other_ones():
    tables = tables_of("logistic")
    site = FederatedSite("north", tables["north"])
    grouped = site.folds(plan_of("logistic", tables, groups="set"))
    person = tables["north"]["set"].to_numpy()
    for label in np.unique(person):
        assert len(np.unique(grouped[person == label], axis=0)) == 1
    one, other = (site.folds(plan_of("logistic", tables, seed=s)) for s in (0, 1))
    assert np.array_equal(one, site.folds(plan_of("logistic", tables, seed=0)))
    assert not np.array_equal(one, other)
    with pytest.raises(DataError, match="no folds"):
        site.folds(plan_of("logistic", tables, folds=0, seed=0))


@pytest.mark.slow
def test_a_folder_chooses_what_one_process_chooses(tmp_path):
    tables = tables_of("logistic")
    plan = plan_of("logistic", tables, search=(0.01, 0.1))
    federate_init(tmp_path, plan)
    owners = owners_of(tables)
    while isinstance(federate_step(tmp_path), WaitingError):
        for site, table in tables.items():
            federate_answer(tmp_path, site, table, owners[site])
    found, same = federate_finish(tmp_path), run(plan, tables)
    assert np.array_equal(found.coef, same.coef)
    said = json.loads((tmp_path / "result.json").read_text())
    assert said["variance"] == same.variance
    assert [line["variance"] for line in said["cv_results"]] == [0.01, 0.1]


def test_few_events_in_a_fold_are_not_let_out():
    tables = tables_of("logistic")
    plan = plan_of("logistic", tables, columns=("drug", "marker"), folds=20)
    with pytest.raises(DataError, match=r"'north': in fold \d+ fewer than 5 people"):
        run(plan, tables, OwnerRules(answers_per_cell=1e9))


def test_a_fold_that_is_separated_is_named():
    tables = tables_of("logistic")
    only = {s: d.assign(drug=0.0, y=np.arange(len(d)) % 2) for s, d in tables.items()}
    north = only["north"]
    rare = north.index[north.y > 0][:1].append(north.index[north.y == 0][:1])
    only["north"] = north.assign(drug=north.index.isin(rare) * 1.0)
    plan = plan_of("logistic", only, prior="normal", exclude=("drug",), search=(0.1,))
    with pytest.raises(SeparationError, match=r"training rows of fold \d.*'drug'"):
        run(plan, only)


def test_one_standard_error_of_a_ridge_is_that_of_the_pooled_rows_in_few_rounds():
    tables = tables_of("poisson")
    tables = {s: d.assign(y=(np.arange(len(d)) % 7 == 0) * 1) for s, d in tables.items()}
    plan = plan_of("poisson", tables, prior="normal", rule="one_standard_error", folds=2)
    found, whole = run(plan, tables), pooled(plan, tables, rule="one_standard_error")
    assert found.variance == whole.variance_
    assert found.rounds <= 25


@pytest.mark.slow
def test_the_walk_of_a_ridge_begins_at_an_information_that_no_step_asked_for():
    tables = {s: d.iloc[:50] for s, d in tables_of("cox").items()}
    plan = plan_of("cox", tables, baseline="common", prior="normal", folds=2)
    assert_same(run(plan, tables), pooled(plan, tables))


def test_the_walk_of_a_ridge_over_more_columns_than_a_message_has(rng, monkeypatch):
    monkeypatch.setattr("steropes.federated.concurrent_fits._LaneEvaluations.whole", 10)
    names = tuple(f"x{j}" for j in range(14))
    parts = {s: {"X": rng.normal(size=(90, 14)), "y": rng.integers(0, 2, 90)} for s in "abc"}
    plan = FederatedPlan(model="logistic", columns=names, sites=("a", "b", "c"), baseline="common",
                         prior="normal", folds=2)  # fmt: skip
    found = run(plan, parts)
    X, y = (np.concatenate([d[k] for d in parts.values()]) for k in "Xy")
    cv = CrossValidation(same_folds(plan, parts))
    whole = LogisticRegression(prior=Normal(), cv=cv).fit(X, y)
    assert found.cv_results["variance"].tolist() == whole.cv_results_["variance"].tolist()
    assert found.variance == whole.variance_


def test_folds_that_have_not_come_to_their_end_are_told(monkeypatch):
    tables = tables_of("logistic")
    plan = plan_of("logistic", tables, search=(0.1, 0.5))
    tune(monkeypatch, concurrent_fits, "CONVERGENCE", max_iterations=0)
    with pytest.warns(NotConvergedWarning, match=r"fits stopped before .*fold 0, 1, 2 at variance"):
        run(plan, tables)


def _one_set_that_says_something(model, prior):
    """At each site; the seed is one by which these sets are in the same fold everywhere."""
    tables = {}
    for site, d in tables_of(model).items():
        d["set"] = [f"{site}{0 if i < 4 else i}" for i in range(len(d))]
        d.loc[d.index[:4], "y"] = [1, 0, 0, 0]
        tables[site] = d
    for seed in range(99):
        plan = plan_of(model, tables, folds=2, prior=prior, seed=seed)
        at = [FederatedSite(s, d).folds(plan)[0, 0] for s, d in tables.items()]
        if len(set(at)) == 1:
            return plan, tables
    raise AssertionError("no such seed")


@pytest.mark.sampled
@pytest.mark.parametrize("prior", ["laplace", "normal"])
@pytest.mark.parametrize("model", ["conditional", "sccs"])
def test_a_fold_whose_training_rows_say_nothing_is_refused_as_on_one_machine(model, prior):
    plan, tables = _one_set_that_says_something(model, prior)
    for fit in (run, pooled):
        with pytest.raises(DataError, match=r"training rows of fold \d say nothing"):
            fit(plan, tables)


def _last_events(n_events):
    """The last people have the events, each before the next: who is last is alone at risk."""
    d = tables_of("cox")["north"]
    n = len(d)
    last = np.arange(n) >= n - n_events
    d = d.assign(e=0.0, t=1.0 + np.arange(n), y=last * 1, w=1.0)
    return {s: d[np.arange(n) % 3 == k].reset_index(drop=True) for k, s in enumerate(SMALL)}


@pytest.mark.parametrize("baseline", ["site", "common"])
@pytest.mark.parametrize(
    ("events", "why"),
    [(1, "No variance can be chosen: there is no"), (3, r"say nothing|No variance can be chosen")],
)
def test_events_that_are_alone_choose_no_variance(events, why, baseline):
    tables = _last_events(events)
    plan = plan_of("cox", tables, baseline=baseline, search=(0.1, 10.0, 100.0))
    for fit in (run, pooled):
        with pytest.raises(DataError, match=why):
            fit(plan, tables)
