"""Fine-Gray with interrupted observation: sites and all rows in one place tell the same spells."""

import numpy as np
import pandas as pd
import pytest
from federated_data import OPEN

from steropes import CrossValidation, FineGrayRegression, Normal, Surv
from steropes.errors import DataError
from steropes.federated import FederatedPlan, FederatedSite, OwnerRules
from steropes.studies.federation import federate

pytestmark = pytest.mark.filterwarnings("ignore:weights are not whole numbers")

COLUMNS = ["x", "z"]
GAP = 5.0  # from one spell to the next


def spells(rng, codes, n=16, digits=1):
    """A site's rows, n a spell of observation, with some of these codes of events in each."""
    parts = []
    for k, some in enumerate(codes):
        e = GAP * k + np.round(rng.uniform(0, 1, n), digits)
        t = e + 0.1 + np.round(rng.uniform(0, 2, n), digits)
        y = rng.permutation(np.resize(some, n))
        parts.append(pd.DataFrame({"e": e, "t": t, "y": y}))
    d = pd.concat(parts, ignore_index=True)
    d["x"], d["z"] = rng.normal(size=len(d)), (rng.random(len(d)) < 0.4) * 1.0
    d["w"], d["o"] = rng.uniform(0.3, 3.0, len(d)), rng.normal(0, 0.5, len(d))
    return d.assign(w=d.w.where(rng.random(len(d)) > 0.1, 0.0), s=rng.integers(0, 2, len(d)))


def bridged(d):
    """Someone who is censored stays until people of the next spell are there."""
    i = d.index[(d.y == 0) & (d.w > 0) & (d.t < GAP)][0]
    return d.assign(t=d.t.where(d.index != i, GAP + 1.5))


def plan_of(tables, **more):
    roles = {"outcome": "t", "event": "y", "entry": "e", "weight": "w", "offset": "o"}
    settings = {"baseline": "common"} | roles | more
    if settings["baseline"] == "common" and not settings.get("times"):
        settings["per_site"] = True
    return FederatedPlan(model="fine_gray", columns=tuple(COLUMNS), sites=tuple(tables), **settings)


def sites_of(tables, rules=OPEN):
    return {s: FederatedSite(s, d, rules) for s, d in tables.items()}


def pooled(plan, tables, **more):
    """All rows in one place, on the plan's grid if there is one."""
    d = pd.concat([d.assign(at=s) for s, d in tables.items()], ignore_index=True)
    if plan.times:
        grid = np.array(plan.times)
        low = np.concatenate([[-np.inf], grid])
        d["t"] = grid[np.searchsorted(grid, d.t)]
        d["e"] = low[np.searchsorted(grid, d.e, side="right")]
    strata = d["at"] + (d["s"].astype(str) if plan.strata else "")
    return FineGrayRegression(tol=1e-11, **more).fit(
        d[COLUMNS], Surv(d.t, d.y, d.e), sample_weight=d.w, offset=d.o,
        strata=strata if plan.baseline == "site" else None,
    )  # fmt: skip


def assert_same_folds(plan, tables):
    """Returns the scores of the folds."""
    sites = sites_of(tables)
    found = federate(plan, sites)
    held = np.concatenate([site.folds(plan) for site in sites.values()])
    splits = [(np.flatnonzero(~out), np.flatnonzero(out)) for out in held.T]
    cv = CrossValidation(splits, search=plan.search)
    whole = pooled(plan, tables, prior=Normal(), cv=cv)
    folds = [c for c in found.cv_results.columns if c.startswith("fold")]
    own, one = found.cv_results[folds].to_numpy(), whole.cv_results_[folds].to_numpy()
    np.testing.assert_allclose(own, one, rtol=1e-8, atol=1e-8 * np.abs(one).max())
    assert found.variance == whole.variance_
    np.testing.assert_allclose(found.coef, whole.coef_, rtol=1e-6, atol=1e-9)
    return own


LATER = ([[0, 1, 2], [0, 2]], [[0, 1, 2], [0, 2], [0]], [[0, 1], [0, 1, 2], [2], [0, 2, 3]])


@pytest.mark.sampled
@pytest.mark.parametrize("times", [(), tuple(np.arange(0.5, 20.0, 0.5))])
@pytest.mark.parametrize("codes", LATER)
def test_later_spells_without_events_of_interest_do_not_matter(codes, times, rng):
    tables = {s: spells(rng, codes) for s in "abc"}
    plan = plan_of(tables, times=times)
    found, whole = federate(plan, sites_of(tables)), pooled(plan, tables)
    np.testing.assert_allclose(found.summary(), whole.summary(kind="model"), rtol=1e-7)
    assert found.log_likelihood == pytest.approx(whole.log_likelihood_, rel=1e-12)


def test_earlier_spells_without_competing_events_are_of_the_fit(rng):
    tables = {s: spells(rng, [[0, 1], [0, 1, 2]]) for s in "abc"}
    plan = plan_of(tables)
    found, whole = federate(plan, sites_of(tables)), pooled(plan, tables)
    np.testing.assert_allclose(found.summary(), whole.summary(kind="model"), rtol=1e-7)
    early = sum(((d.y == 1) & (d.t < GAP) & (d.w > 0)).sum() for d in tables.values())
    assert 0 < early < found.events


def test_what_competing_events_weigh_in_a_later_spell_is_unknown_in_both(rng):
    tables = {s: spells(rng, [[0, 2], [0, 1], [2]]) for s in "abc"}
    plan = plan_of(tables)
    with pytest.raises(DataError, match="between competing events"):
        federate(plan, sites_of(tables))
    with pytest.raises(DataError, match="under observation at some time between competing"):
        pooled(plan, tables)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "more",
    [{}, {"repeats": 2}, {"times": tuple(np.arange(0.5, 20.0, 0.5))}, {"baseline": "site"},
     {"baseline": "site", "strata": "s"}],
)  # fmt: skip
def test_the_spells_of_a_fold_are_those_of_its_rows(more, rng):
    """One row holds two spells together, but not in the fold that leaves it out."""
    tables = {s: spells(rng, [[0, 1, 2], [0, 2]], 40) for s in "abc"}
    tables["a"] = bridged(tables["a"])
    plan = plan_of(tables, prior="normal", folds=2, search=(0.05, 0.5), **more)
    assert_same_folds(plan, tables)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(6))
def test_folds_of_random_spells(seed):
    rng = np.random.default_rng(seed)
    kinds = ([0, 1, 2], [0, 1], [0, 2], [0], [2, 3])
    later = [kinds[k] for k in rng.integers(0, 5, 2)]
    first = [0, 1] if any(1 in some for some in later) else [0, 1, 2]
    tables = {s: spells(rng, [first, *later], int(rng.integers(6, 12))) for s in "abc"}
    if any(1 in some and 2 in later[0] for some in later[1:]):  # of these weights are unknown
        tables = {s: d.assign(y=d.y.where((d.y < 2) | (d.t > 2 * GAP), 0))
                  for s, d in tables.items()}  # fmt: skip
    if rng.random() < 0.5:
        tables["b"] = bridged(tables["b"])
    plan = plan_of(tables, prior="normal", folds=3, search=(0.05, 0.5), seed=seed)
    assert np.isfinite(assert_same_folds(plan, tables)).all()


def test_few_events_of_interest_at_a_time_are_not_told(rng):
    tables = {s: spells(rng, [[0, 1, 2], [0, 2]], 200) for s in "abc"}
    d = tables["a"]
    few = d.index[(d.y == 1) & (d.t <= 2.0)][:-3]
    tables["a"] = d.assign(y=d.y.where(~d.index.isin(few), 2))
    plan = plan_of(tables, times=(2.0, 4.0, 6.0, 9.0))
    with pytest.raises(DataError, match=r"'a': fewer than 5 people .* 'y' and 't'"):
        federate(plan, sites_of(tables, OwnerRules()))
