"""Random sequences of plans, and what follows from the accepted ones by arithmetic.

The attacker is a coalition of the lead and all sites but two, and knows more than any fit tells:
for each accepted plan the whole table of its columns over the people of the two other sites, as
these sites answer from it. It looks for cells by integer programming, and for people by linear
algebra. Sites that group rare rows are attacked with the knowledge of their grouped tables.
"""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from owners import owners_of
from scipy.optimize import Bounds, LinearConstraint, milp

from steropes.errors import DataError, SeparationError
from steropes.federated import FederatedPlan, FederatedSite, OwnerRules
from steropes.studies.federation import federate

NAMES = ("north", "south", "west", "east")
COLUMNS = ("a", "b", "c", "o", "y")
LEAST = OwnerRules().least
CELLS = np.array(list(product([0.0, 1.0], repeat=len(COLUMNS))))


def tables_of(rng):
    """Sites with dependent 0/1 columns, some of whose combinations are rare."""
    out, shares = {}, rng.uniform(0.2, 0.8, len(COLUMNS))
    slope = rng.choice([0.0, 0.2, 0.6])
    for site in NAMES:
        n = int(rng.integers(150, 900))
        z = rng.normal(size=n)
        X = [rng.random(n) < np.clip(p + slope * 0.3 * z, 0.02, 0.98) for p in shares]
        out[site] = pd.DataFrame(np.array(X, float).T, columns=COLUMNS)
    return out


def plan_of(rng):
    """Columns in random roles, at all sites or without one of them."""
    names = list(rng.permutation(COLUMNS))
    k = int(rng.integers(1, 3))
    outcome, columns, rest = names[0], tuple(names[1 : 1 + k]), names[1 + k :]
    weight = rest[0] if rng.random() < 0.4 else None
    offset = rest[1] if rng.random() < 0.3 else None
    sites = NAMES if rng.random() < 0.8 else tuple(rng.permutation(NAMES)[:3])
    return FederatedPlan(
        model="poisson" if rng.random() < 0.3 else "logistic", columns=columns, outcome=outcome,
        sites=sites, weight=weight, offset=offset,
    )  # fmt: skip


def accepted_of(sites, rng, length=5):
    """The plans of a sequence that all sites answered, at least in the first round."""
    out = []
    for _ in range(length):
        plan = plan_of(rng)
        try:
            federate(plan, {s: sites[s] for s in plan.sites})
        except (DataError, SeparationError):
            if all(answered(sites[s].owner, plan) for s in plan.sites):  # later rounds were not
                out.append(plan)
        else:
            out.append(plan)
    return out


def answered(owner, plan):
    """Whether a site has added its sums to a total of the plan; if one has not, there is none."""
    with owner.ledger.open() as plans:
        return any(p.study == plan.study and p.totals for p in plans)


def answered_from(site, plan):
    """The table of the columns from which a site answers, whatever it is asked."""
    admission = site._admission(plan)
    with site.owner.ledger.open() as plans:
        admission._update_rows(plans)
    return np.column_stack([admission.rows.table.column(c) for c in COLUMNS])


def known_of(plan):
    """The columns whose table the attacker has, and whether a row is in it."""
    names = [n for n in plan.table_columns if n in COLUMNS]
    at = [COLUMNS.index(n) for n in names]
    return at, None if plan.weight is None else COLUMNS.index(plan.weight)


def equations(plans, X):
    """The sums that are known, as 0/1 vectors over the rows of X."""
    out = []
    for plan in plans:
        at, weight = known_of(plan)
        inside = np.ones(len(X), bool) if weight is None else X[:, weight] > 0
        out += [
            inside & (X[:, at] == level).all(axis=1) for level in product([0, 1], repeat=len(at))
        ]
    return np.array(out, float)


def small_cells(plans, people, actual=None):
    """Cells of one, two and all columns that are certain to have 1 to LEAST − 1 people.

    Cells are sought among those that are small in the known table, or in another, the actual one.
    """
    A, total = equations(plans, CELLS), equations(plans, people).sum(axis=1)
    tables = [people] if actual is None else [people, actual]
    found, n = [], len(CELLS)
    for k in (1, 2, len(COLUMNS)):
        for at in combinations(range(len(COLUMNS)), k):
            for level in product([0, 1], repeat=k):
                cell = (CELLS[:, at] == level).all(axis=1) * 1.0
                size = [int((x[:, at] == level).all(axis=1).sum()) for x in tables]
                if not any(0 < k < LEAST for k in size):
                    continue  # the attacker's interval contains the size
                ends = [
                    milp(sign * cell, constraints=LinearConstraint(A, total, total),
                         integrality=np.ones(n), bounds=Bounds(0, len(people))).fun * sign
                    for sign in (1, -1)
                ]  # fmt: skip
                if round(ends[0]) >= 1 and round(ends[1]) < LEAST:
                    found.append((at, level, size))
    return found


def singled_out(plans, people):
    """Groups of fewer than LEAST equal rows whose sums are combinations of known sums."""
    A = equations(plans, people)
    _, s, V = np.linalg.svd(A, full_matrices=False)
    V = V[s > 1e-9 * s.max()]
    _, group, count = np.unique(A.T, axis=0, return_inverse=True, return_counts=True)
    found = []
    for g in np.flatnonzero(count < LEAST):
        e = (group.ravel() == g) * 1.0
        if A[:, e > 0].any() and np.allclose(V.T @ (V @ e), e, atol=1e-7):
            found.append(int(count[g]))
    return found


def attack(seed, rules):
    """Run a sequence, and return the numbers of accepted plans and of what follows from them."""
    rng = np.random.default_rng([660, seed])
    tables = tables_of(rng)
    owners = owners_of(tables, rules)
    sites = {s: FederatedSite(s, d, owners[s]) for s, d in tables.items()}
    plans = accepted_of(sites, rng)
    if not plans:
        return 0, [], []
    assert len({frozenset(p.sites) for p in plans}) == 1  # no site's total by subtraction
    honest = rng.choice(sorted(plans[0].sites), 2, replace=False)
    people = np.vstack([tables[s].to_numpy() for s in honest])
    known = np.vstack([answered_from(sites[s], plans[-1]) for s in honest])
    if rules.rare_rows == "refuse":
        np.testing.assert_array_equal(known, people)
    return len(plans), small_cells(plans, known, people), singled_out(plans, known)


def run(seeds, rules):
    accepted = 0
    for seed in seeds:
        plans, cells, rows = attack(seed, rules)
        assert not cells, seed
        assert not rows, seed
        accepted += plans
    return accepted


GROUP, REFUSE = OwnerRules(), OwnerRules(rare_rows="refuse")


@pytest.mark.parametrize("rules", [GROUP, REFUSE], ids=["group", "refuse"])
def test_nothing_about_few_people_follows_from_some_sequences_of_plans(rules):
    assert run(range(3), rules) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("rules", [GROUP, REFUSE], ids=["group", "refuse"])
def test_nothing_about_few_people_follows_from_many_sequences_of_plans(rules):
    assert run(range(1000, 1500), rules) >= 250


def test_the_attack_finds_a_small_cell_that_three_tables_of_pairs_determine():
    """So that the tests above show the effect of the rules, and no mistake of the attack."""
    sizes = {(0, 0, 0): 50, (0, 1, 0): 30, (1, 0, 0): 30, (1, 1, 1): 2, (0, 0, 1): 20,
             (0, 1, 1): 20, (1, 0, 1): 8}  # fmt: skip
    rows = [[a, b, 0, 0, y] for (a, b, y), n in sizes.items() for _ in range(n)]
    people = np.array(rows, float)
    plans = [
        FederatedPlan(model="logistic", columns=(x,), outcome=z, sites=NAMES)
        for x, z in (("a", "y"), ("b", "y"), ("a", "b"))
    ]
    assert small_cells(plans, people)
    filtered = [plans[0], FederatedPlan(
        model="logistic", columns=("a",), outcome="y", weight="b", sites=NAMES)]  # fmt: skip
    assert singled_out(filtered, people)
