"""Attacks that recovered people from federated messages, and that fail now.

Each test plays an attacker with all that it can see: the requests, the messages of the sites and
the totals, under the default rules of owners.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from federated_data import OPEN
from owners import owners_of
from scipy.optimize import nnls

from steropes.errors import DataError
from steropes.federated import (
    FederatedPlan,
    FederatedSite,
    Message,
    OwnerRules,
    Round,
    answer_layout,
)
from steropes.federated.answer_layout import total_of
from steropes.federated.disclosure_ledger import count_disclosed
from steropes.federated.federated_site import _sums
from steropes.federated.fixed_point_sums import decode, from_bytes
from steropes.federated.site_rows import read_rows
from steropes.studies.federation import federate

SITES = ("north", "south", "west")
REFUSE = OwnerRules(rare_rows="refuse")


def plan_of(columns, **more):
    settings = {"model": "logistic", "outcome": "y", "columns": tuple(columns)} | more
    return FederatedPlan(sites=SITES, **settings)


def binary(rng, p, n, skew=0.3):
    """Tables of 0/1 columns, some of whose combinations few people have."""
    out = {}
    for site in SITES:
        X = (rng.random((n, p)) < skew).astype(float)
        y = (rng.random(n) < 1 / (1 + np.exp(1 - 0.5 * X[:, 0]))) * 1
        out[site] = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)]).assign(y=y)
    return out


class Heard:
    """A run, and all that the lead and the folder see of it."""

    def __init__(self, plan, tables, rules=None):
        self.plan, self.said = plan, []
        self.owners = owners_of(tables, rules or OwnerRules())
        self.sites = {s: FederatedSite(s, d, self.owners[s]) for s, d in tables.items()}
        self.error = None

        def heard(site):
            def answer(plan, request, earlier):
                message = self.sites[site].answer(plan, request, earlier)
                self.said.append((request, message))
                return message

            return answer

        keys = {s: o.keys.public for s, o in self.owners.items()}
        try:
            self.found = federate(plan, {s: heard(s) for s in tables}, keys)
        except DataError as error:
            self.error = str(error)

    @property
    def rounds(self):
        by = {}
        for request, message in self.said:
            by.setdefault(request.round, (request, []))[1].append(message)
        return [
            Round(r, tuple(m)) for r, m in by.values()
            if len(m) == len(SITES) and all(x.kind == "answer" for x in m)
        ]  # fmt: skip


# -- 1: coefficients that single people out --------------------------------------------------------


def separating(plan, last, n=6001):
    """Coefficients of 1e5 along a direction, at many points: each step is one person."""
    p = len(plan.columns)
    arrays = {
        **last.arrays, "points": np.tile(1e5 * np.linspace(-1, 1, p), (n, 1)),
        "intercepts": np.linspace(-3e5, 3e5, n), "hessians": np.empty(0, np.int64),
        "columns": np.empty(0, np.int64),
    }  # fmt: skip
    return replace(last, arrays=arrays)


def test_a_separating_direction_is_not_answered(rng):
    tables = {s: pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"]).assign(
        y=rng.integers(0, 2, 400)) for s in SITES}  # fmt: skip
    talk = Heard(plan_of("ab", baseline="common"), tables)
    rounds, site = talk.rounds, FederatedSite("west", tables["west"], talk.owners["west"])
    last = rounds[2].request
    for request in (separating(talk.plan, last), separating(talk.plan, last, 1),
                    replace(separating(talk.plan, last), round=len(rounds))):  # fmt: skip
        for earlier in (rounds, rounds[:2]):
            with pytest.raises(DataError, match=r"not follow from|are finished|no further"):
                site.answer(talk.plan, request, earlier)


def test_points_at_which_sums_are_step_functions_tell_nothing(rng):
    """Even a site that could be made to answer has nothing to say there."""
    d = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"]).assign(y=np.arange(60) % 2)
    plan = plan_of("ab", baseline="common")
    last = Message("request", plan.study, 1, "evaluate", arrays={
        "center": np.zeros(2), "scale": np.ones(2)})  # fmt: skip
    out = _sums(read_rows(d, plan), plan, separating(plan, last), OwnerRules().predictor)
    assert out["too_far"].all()
    for name in ("loss", "gradient"):
        assert not out[name].any()


def test_the_owner_limits_points_and_rounds_of_an_honest_looking_plan(rng):
    tables = binary(rng, 2, 500)
    rules = replace(OwnerRules(), points=3)
    assert "allows 3 points" in Heard(plan_of(["x0", "x1"], baseline="common"), tables, rules).error


# -- 2: the joint table ----------------------------------------------------------------------------


def cells_of(p):
    return np.array(np.meshgrid(*[[0.0, 1.0]] * p, indexing="ij")).reshape(p, -1).T


def solved(requests, sums, p):
    """Non-negative least squares for the sizes of the cells of 0/1 columns.

    The loss and the gradient but for what y adds, which is linear in the coefficients and so among
    the unknowns, and Hessians, as sums over cells.
    """
    X = cells_of(p)
    rows, values = [], []
    for request, told_ in zip(requests, sums, strict=True):
        Z = (X - request.arrays["center"]) / request.arrays["scale"]
        W = np.column_stack([np.ones(len(X)), Z])
        for m, beta in enumerate(request.arrays["points"]):
            eta = request.arrays["intercepts"][m] + Z @ (beta * request.arrays["scale"])
            mean = 1 / (1 + np.exp(-eta))
            theta = np.append(request.arrays["intercepts"][m], beta * request.arrays["scale"])
            rows.append(np.concatenate([np.logaddexp(0, eta), -theta]))
            values.append(told_["loss"][m])
            for j in range(p + 1):
                rows.append(np.concatenate([mean * W[:, j], -np.eye(p + 1)[j]]))
                values.append(told_["gradient"][m, j])
            if m in request.arrays["hessians"]:
                v = mean * (1 - mean)
                at = np.tril_indices(p + 1)
                rows += [
                    np.append(v * W[:, a] * W[:, b], np.zeros(p + 1))
                    for a, b in zip(*at, strict=True)
                ]
                values += list(told_["hessian"][0])
    A, b = np.array(rows), np.array(values)
    signs = np.hstack([A, -A[:, len(X) :]])  # the sums of y x may be negative
    size = np.abs(signs).max(axis=1)
    return nnls(signs / size[:, None], b / size, maxiter=100_000)[0][: len(X)]


def sizes(tables, p):
    X = np.vstack([d[[f"x{j}" for j in range(p)]] for d in tables])
    code = (X @ (2 ** np.arange(p)[::-1])).astype(int)
    return np.bincount(code, minlength=2**p)


@pytest.mark.parametrize("p", [4, 6])
def test_the_attack_works_on_totals_where_owners_have_no_rules(p, rng):
    """So that the tests below show the effect of rules and masks, and no mistake of the attack."""
    tables = binary(rng, p, 120)
    talk = Heard(plan_of([f"x{j}" for j in range(p)], baseline="common"), tables, OPEN)
    rounds = [r for r in talk.rounds if r.request.ask == "evaluate"]
    totals = [total_of(talk.plan, r.request, r.answers) for r in rounds]
    found = solved([r.request for r in rounds], totals, p)
    actual = sizes(tables.values(), p)
    assert (actual < 5).any()
    assert (np.abs(found - actual) < 0.5).mean() > 0.9


@pytest.mark.parametrize("p", [4, 6])
def test_the_messages_of_a_site_say_nothing_of_its_table(p, rng, monkeypatch):
    """What the lead and whoever reads the folder see of one site, or of two."""
    # An attacker reads sums with masks, which the lead refuses.
    monkeypatch.setattr(answer_layout, "LARGEST", np.inf)
    tables = binary(rng, p, 120)
    talk = Heard(plan_of([f"x{j}" for j in range(p)], baseline="common"), tables, OPEN)
    rounds = [r for r in talk.rounds if r.request.ask == "evaluate"]
    seen = np.concatenate([decode(from_bytes(r.answers[0].sums)) for r in rounds])
    assert np.median(np.abs(seen)) > 1e26  # the top bits of 192 are random
    for members in ((0,), (0, 1)):
        parts = [total_of(talk.plan, r.request, tuple(r.answers[k] for k in members))
                 for r in rounds]  # fmt: skip
        found = solved([r.request for r in rounds], parts, p)
        actual = sizes([tables[SITES[k]] for k in members], p)
        assert (np.abs(found - actual) < 0.5).mean() <= (actual == 0).mean()


@pytest.mark.parametrize("p", [4, 6, 8])
@pytest.mark.parametrize("baseline", ["site", "common"])
def test_totals_that_determine_small_cells_are_refused_before_the_first(p, baseline, rng):
    tables = binary(rng, p, 2000, skew=0.25)
    names = [f"x{j}" for j in range(p)]
    assert any((sizes([d], p) % 2000 < 5).any() for d in tables.values())
    talk = Heard(plan_of(names, baseline=baseline), tables, REFUSE)
    assert "round 0 (describe) was refused" in talk.error
    assert "could be computed" in talk.error
    assert not any(message.sums for _, message in talk.said)


def test_a_table_whose_cells_are_all_large_is_answered(rng):
    tables = binary(rng, 2, 2000)
    assert Heard(plan_of(["x0", "x1"]), tables).error is None


@pytest.mark.parametrize("prior", ["none", "laplace"])
def test_a_column_of_noise_does_not_hide_a_table(prior, rng):
    """A prior holds its coefficient at zero, so that sums are those of the other columns."""
    tables = {s: d.assign(noise=rng.normal(size=len(d))) for s, d in binary(rng, 5, 800).items()}
    more = {} if prior == "none" else {"prior": prior, "variance": 1e-9,
                                       "exclude": tuple(f"x{j}" for j in range(5))}  # fmt: skip
    talk = Heard(plan_of([*(f"x{j}" for j in range(5)), "noise"], **more), tables, REFUSE)
    assert "the table of the columns of few values" in talk.error


def test_plans_add_up_until_nothing_more_is_answered(rng):
    """One plan after the other, each with a new digest: the ledger knows them all."""
    tables = {
        s: pd.DataFrame({"a": rng.normal(size=600), "y": rng.integers(0, 2, 600)}) for s in SITES
    }
    owners = owners_of(tables, OwnerRules())
    answered, refused = 0, ""
    for k in range(12):
        plan = plan_of("a", tol=1e-8 / (1 + k))
        try:
            federate(plan, {s: FederatedSite(s, d, owners[s]) for s, d in tables.items()})
            answered += 1
        except DataError as error:
            refused = str(error)
    assert 1 <= answered < 12
    assert "could be computed from the numbers that this plan and earlier ones disclose" in refused
    with owners["north"].ledger.open() as plans:
        assert count_disclosed(plans) <= 0.33 * 600


def test_the_same_plan_again_tells_nothing_new(rng):
    tables = binary(rng, 2, 2000)
    owners, plan = owners_of(tables, OwnerRules()), plan_of(["x0", "x1"])
    counts = []
    for _ in range(3):
        federate(plan, {s: FederatedSite(s, d, owners[s]) for s, d in tables.items()})
        with owners["north"].ledger.open() as plans:
            counts.append(count_disclosed(plans))
    assert len(set(counts)) == 1


# -- 3: incomplete rules ---------------------------------------------------------------------------


def after(first, second, tables, changed=None):
    """The error of a second plan on the same owners' data."""
    owners = owners_of(tables, REFUSE)
    federate(first, {s: FederatedSite(s, d, owners[s]) for s, d in tables.items()})
    again = tables if changed is None else changed
    with pytest.raises(DataError) as said:
        federate(second, {s: FederatedSite(s, d, owners[s]) for s, d in again.items()})
    return str(said.value)


def survival(rng, n=900):
    out = {}
    for site in SITES:
        t = np.minimum(np.ceil(rng.exponential(80, n)), 120)
        out[site] = pd.DataFrame({"x": (rng.random(n) < 0.5) * 1.0, "t": t, "y": (t < 120) * 1})
    return out


def test_plans_whose_grids_differ_by_a_day_are_refused(rng):
    tables = survival(rng)
    for site, d in tables.items():  # few events on day 61
        late = np.flatnonzero(d.t == 61)[2:]
        tables[site] = d.assign(t=d.t.where(~d.index.isin(late), 62.0))
    roles = {"model": "cox", "outcome": "t", "event": "y", "baseline": "common"}
    first = plan_of("x", times=(60.0, 90.0, 120.0), **roles)
    second = plan_of("x", times=(61.0, 90.0, 120.0), **roles)
    assert "'t (on the grids of all plans)'" in after(first, second, tables)


def test_columns_of_two_plans_that_differ_by_a_person_are_refused(rng):
    tables = binary(rng, 2, 2000)
    for site, d in tables.items():
        flip = d.index[:1] if site == "north" else d.index[:0]
        tables[site] = d.assign(again=d.x0.where(~d.index.isin(flip), 1 - d.x0))
    said = after(plan_of(["x0"]), plan_of(["again"]), tables)
    assert "'north': fewer than 5 people" in said
    assert "'again' and 'x0'" in said


@pytest.mark.parametrize("off", [1, 4])
def test_data_with_a_few_people_more_are_refused(off, rng):
    tables = {
        s: pd.DataFrame({"a": rng.normal(size=900), "y": rng.integers(0, 2, 900)}) for s in SITES
    }
    fewer = tables | {"north": tables["north"].iloc[off:]}
    said = after(plan_of("a"), plan_of("a", tol=1e-9), tables, fewer)
    assert "differ from those of an earlier plan by fewer than 5 people" in said


def test_plans_that_differ_by_a_site_are_refused(rng):
    tables = {
        s: pd.DataFrame({"a": rng.normal(size=900), "y": rng.integers(0, 2, 900)})
        for s in (*SITES, "east")
    }
    owners = owners_of(tables, OwnerRules())
    sites = {s: FederatedSite(s, d, owners[s]) for s, d in tables.items()}
    four = FederatedPlan(model="logistic", columns=("a",), sites=tuple(tables))
    federate(four, sites)
    with pytest.raises(DataError, match="the sums of single ones would follow by subtraction"):
        federate(plan_of("a"), sites)


def test_a_lead_that_pretends_a_site_left_gets_no_second_total(rng):
    tables = binary(rng, 2, 2000)
    talk = Heard(plan_of(["x0", "x1"]), tables)
    first = talk.rounds[0]
    left = Round(first.request, (), left=("south",))
    later = replace(first.request, round=1, values={"sites": ["north", "west"]})
    for site in ("north", "west"):
        with pytest.raises(DataError, match="which has not withdrawn"):
            talk.sites[site].answer(talk.plan, later, [left])


def four_sites(rng):
    tables = {
        s: pd.DataFrame({"a": rng.normal(size=900), "y": rng.integers(0, 2, 900)})
        for s in (*SITES, "east")
    }
    owners = owners_of(tables, OwnerRules(gone=("east",)))
    return tables, {s: FederatedSite(s, d, owners[s]) for s, d in tables.items()}


def leaving_in(sites, asked):
    """A connection to the site in the east that breaks when it is asked this."""

    def east(plan, request, earlier):
        if request.ask == asked:
            raise ConnectionError
        return sites["east"].answer(plan, request, earlier)

    return sites | {"east": east}


def test_totals_with_and_without_a_site_of_one_plan_are_not_both_given(rng):
    """A round that is repeated without a site tells its own part of the description."""
    _, sites = four_sites(rng)
    keys = {s: site.owner.keys.public for s, site in sites.items()}
    plan = FederatedPlan(model="logistic", columns=("a",), sites=(*SITES, "east"))
    for site in sites.values():
        site.meet({s: k for s, k in keys.items() if s != site.name})
    with pytest.raises(DataError, match="its own sums would follow from those without them"):
        federate(plan, leaving_in(sites, "evaluate"), keys)


def test_totals_with_and_without_a_site_of_two_plans_are_not_both_given(rng):
    """It left the first plan before any total, and comes back in a second one."""
    _, sites = four_sites(rng)
    keys = {s: site.owner.keys.public for s, site in sites.items()}
    plan = FederatedPlan(model="logistic", columns=("a",), sites=(*SITES, "east"))
    for site in sites.values():
        site.meet({s: k for s, k in keys.items() if s != site.name})
    found = federate(plan, leaving_in(sites, "describe"), keys)
    assert "'east' left" in " ".join(found.notes)
    with pytest.raises(DataError, match="the sums of single ones would follow by subtraction"):
        federate(replace(plan, tol=1e-7), sites)


def test_a_lead_who_knows_that_cells_are_whole_numbers_learns_nothing_of_a_site(rng):
    """Totals of three sites at several coefficients leave each site's cells undetermined.

    The lead solves the totals for the table of all people, which is known where all cells are
    large. Any division of it among the sites gives the same totals and, with other masks, the same
    messages, so that even the exact table of all leaves each site's between zero and all.
    """
    tables = binary(rng, 2, 2000)
    talk = Heard(plan_of(["x0", "x1"], baseline="common"), tables)
    assert talk.error is None
    rounds = [r for r in talk.rounds if r.request.ask == "evaluate"]
    totals = [total_of(talk.plan, r.request, r.answers) for r in rounds]
    everybody = np.round(solved([r.request for r in rounds], totals, 2)).astype(int)
    np.testing.assert_array_equal(everybody, sizes(tables.values(), 2))  # totals do tell that
    own = sizes([tables["west"]], 2)
    swapped = {**tables, "west": tables["south"], "south": tables["west"]}
    again = Heard(plan_of(["x0", "x1"], baseline="common"), swapped)
    assert not np.array_equal(own, sizes([swapped["west"]], 2))
    for one, other in zip(talk.rounds, again.rounds, strict=True):
        assert one.request.id == other.request.id
        first, second = (total_of(talk.plan, r.request, r.answers) for r in (one, other))
        for name, x in first.arrays.items():
            np.testing.assert_array_equal(x, second.arrays[name])


def test_numbers_that_a_site_tells_by_itself_are_counted_too(rng):
    tables = {
        s: pd.DataFrame({"a": rng.normal(size=300), "y": rng.integers(0, 2, 300)}) for s in SITES
    }
    owners = owners_of(tables, OwnerRules(per_site=("profile",)))
    sites = {s: FederatedSite(s, d, owners[s]) for s, d in tables.items()}
    profile = plan_of("a", method="profiles", parameters=("a",), per_site=True)
    found = federate(profile, sites)
    with owners["north"].ledger.open() as plans:
        assert count_disclosed(plans) == 3 * (found.profiles["a"]["site"] == "north").sum()
    with pytest.raises(DataError, match="numbers that this plan and earlier ones disclose"):
        federate(plan_of("a"), sites)
