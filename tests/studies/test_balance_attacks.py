"""An exhaustive search over the tables of counts that agree with a released table of covariates.

Everybody belongs to one group, such as an age. The attacker knows the rules and the released sizes
of the arms, tries every pair of counts of every group, and keeps those whose release (shares, share
of both arms, standardised difference and its variance) is the published one. Counts of an arm have
to sum to its size.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from tests.studies.count_attacks import ANY, judged
from tests.studies.release_attacker import ARMS, LEAST, RULES, Unknowns, cell_range

from steropes.studies.disclosure import DisclosureRules, share_unit
from steropes.studies.release.grid_covariates_and_scores import released_balance

Sizes = tuple[int, int]


def exact_table(counts, sizes, after=None):
    """Exact rows of the balance, one for each pair of counts of the target and comparator.

    After matching or trimming they are the same, unless other counts and sizes are given.
    """
    table = pd.DataFrame({"covariate_id": 1000 * np.arange(len(counts)) + 1003})
    for when, (of, size) in (("before", (counts, sizes)), ("after", after or (counts, sizes))):
        of = np.asarray(of)
        (p, q), (n1, n0) = (of / np.array(size)).T, size
        spread = np.sqrt((p * (1 - p) + q * (1 - q)) / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            smd = np.where(p == q, 0.0, (p - q) / spread)
        variance = (n1 + n0) / (n1 * n0) + smd**2 / (2 * (n1 + n0 - 2))
        table = table.assign(
            **{f"target_mean_{when}": p, f"comparator_mean_{when}": q,
               f"mean_{when}": of.sum(axis=1) / (n1 + n0), f"std_diff_{when}": smd,
               f"std_diff_var_{when}": variance, f"target_people_{when}": n1,
               f"balanced_{when}": (np.abs(smd) <= 0.1).astype(int),
               f"comparator_people_{when}": n0}
        )  # fmt: skip
    shifts = dict.fromkeys(("target", "comparator", "target_comparator"), 0.0)
    return table.assign(**{f"{of}_std_diff": x for of, x in shifts.items()})


def released(counts, sizes, rules, exclusive=True):
    """The released rows; every covariate has a kind of its own unless they exclude each other."""
    return released_table(exact_table(counts, sizes), rules, exclusive)


def released_table(table, rules, exclusive=True):
    """Release rows of the balance."""
    kinds = 3 if exclusive else np.arange(len(table)) + 10**6
    covariates = pd.DataFrame(
        {"covariate_id": table["covariate_id"], "covariate_analysis_id": kinds}
    )
    return released_balance(table, covariates, rules)


def agreeing(row, sizes: Sizes, rules) -> set[Sizes]:
    """All pairs of counts of one group whose release is the published row."""
    ranges = []
    for arm, n in zip(ARMS, sizes, strict=True):
        share = row[f"{arm}_mean_before"]
        if math.isnan(share):  # few lack it, or it is withheld
            ranges.append(range(n + 1))
        elif share < 0:
            ranges.append(range(1, rules.least))
        else:
            middle = round(share * n)  # counts of one share differ by at most ten in these sizes
            ranges.append(range(max(0, middle - 10), min(n, middle + 10) + 1))
    pairs = [*itertools.product(*ranges)]
    told = released(pairs, sizes, rules, exclusive=False)
    fits = np.ones(len(pairs), bool)
    # Without a variance, mean and difference are functions of the released shares.
    from_shares = math.isnan(row["std_diff_var_before"])
    names = [f"{arm}_mean_before" for arm in ARMS]
    names += [] if from_shares else ["mean_before", "std_diff_before", "std_diff_var_before"]
    for name in names:
        if not math.isnan(row[name]):
            close = np.isclose(told[name].to_numpy(), row[name], rtol=0, atol=1e-9)
            # A bound of both arms depends on what is withheld.
            fits &= close | (name == "mean_before" and row[name] < 0)
    return {pair for pair, fit in zip(pairs, fits, strict=True) if fit}


def possible_counts(table, sizes_of: Iterator[Sizes], rules) -> dict[tuple[int, str], set[int]]:
    """The counts that each suppressed cell can have in some table that agrees with everything."""
    found: dict[tuple[int, str], set[int]] = {
        (g, arm): set()
        for g, arm in itertools.product(range(len(table)), ARMS)
        if table[f"{arm}_mean_before"].iloc[g] < 0
    }
    for sizes in sizes_of:
        groups = [agreeing(row, sizes, rules) for _, row in table.iterrows()]
        if not all(groups):
            continue
        for g in {g for g, _ in found}:
            sums = {(0, 0)}
            for other in groups[:g] + groups[g + 1 :]:
                sums = {
                    (a + c, b + d) for a, b in sums for c, d in other
                    if a + c <= sizes[0] and b + d <= sizes[1]
                }  # fmt: skip
            for c, d in groups[g]:
                if (sizes[0] - c, sizes[1] - d) in sums:
                    for arm, n in zip(ARMS, (c, d), strict=True):
                        if (g, arm) in found:
                            found[g, arm].add(n)
    return found


def attacked(counts, rules):
    """Possible counts of each suppressed cell, by an attacker who knows the released sizes."""
    sizes = tuple(int(n) for n in np.sum(counts, axis=0))
    windows = [
        range(low, high + 1)
        for low, high in (cell_range(rules.rounded(n), rules.least, rules.rounds) for n in sizes)
    ]
    table = released(counts, sizes, rules)
    found = possible_counts(table, itertools.product(*windows), rules)
    for (g, arm), values in found.items():
        assert counts[g][ARMS.index(arm)] in values  # the truth is always among them
    return found


@pytest.mark.parametrize("name", ["ohdsi", "opensafely"])
def test_whether_a_difference_is_small_does_not_narrow_a_suppressed_count(name):
    rules, sizes = DisclosureRules(name, LEAST[name]), (500, 500)
    found = [released([(few, 0)], sizes, rules, exclusive=False) for few in range(1, rules.least)]
    exact = [exact_table([(few, 0)], sizes)["balanced_after"][0] for few in range(1, rules.least)]
    assert {*exact} == {0, 1}  # exact differences are on both sides of the limit
    for other in found[1:]:
        pd.testing.assert_frame_equal(found[0], other)


# Groups whose counts followed uniquely: from standardised differences, from rounded counts alone.
FOLLOWED = {
    "ohdsi": [[(14, 23), (39, 21), (1, 10)], [(40, 41), (30, 46), (4, 12)]],
    "opensafely": [[(36, 48), (54, 60), (7, 12)]],
}


@pytest.mark.parametrize("name", RULES)
def test_counts_that_once_followed_uniquely_can_be_any_small_count(name):
    rules = DisclosureRules(name, LEAST[name])
    for counts in FOLLOWED[name]:
        found = attacked(counts, rules)
        assert found == {(2, "target"): {*range(1, rules.least)}}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_no_suppressed_count_of_random_groups_is_narrowed(seed):
    rules, rng = DisclosureRules(), np.random.default_rng(seed)
    suppressed = 0
    for _ in range(25):
        groups = int(rng.integers(2, 5))
        few = rng.integers(1, 5, size=(int(rng.integers(1, 3)), 2))
        few[0, 1] = rng.integers(1, 30)
        counts = [*rng.integers(5, 60, size=(groups, 2)).tolist(), *few.tolist()]
        for values in attacked(counts, rules).values():
            suppressed += 1
            assert values == {*range(1, 5)}, counts
    assert suppressed > 25


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_suppressed_count_of_random_groups_is_narrowed_by_rounded_numbers(seed):
    rules, rng = DisclosureRules("opensafely", 8), np.random.default_rng(seed)
    for _ in range(6):
        groups, few = int(rng.integers(2, 4)), int(rng.integers(1, 8))
        counts = [*rng.integers(8, 60, size=(groups, 2)).tolist(), [few, int(rng.integers(8, 30))]]
        for values in attacked(counts, rules).values():
            assert values == {*range(1, 8)}, counts


def trimmed_groups(rng):
    """Counts of groups of both arms, and of those that trimming leaves, with the sizes."""
    groups, shares = int(rng.integers(2, 5)), rng.dirichlet([0.6] * 4)
    before = np.column_stack(
        [rng.multinomial(rng.integers(30, 300), own[:groups] / own[:groups].sum())
         for own in (shares, rng.permutation(shares))]
    )  # fmt: skip
    after = rng.binomial(before, rng.uniform(0.5, 1, (groups, 1)))
    return before, after


def share_range(cell, size, rules):
    """The counts of so many people that a released share stands for."""
    if math.isnan(cell):
        return 0, ANY
    if cell < 0:
        return 1, rules.least - 1
    if cell in (0.0, 1.0):
        return round(cell * size), round(cell * size)
    if rules.rounds:  # The ratio of two rounded counts.
        middle = round(cell * rules.rounded(size))
        return middle - 4, middle + 4
    half = 0.5 * share_unit(size, rules.least) * size + 1e-6
    return math.ceil(cell * size - half), math.floor(cell * size + half)


def attack_trimming(before, after, rules):
    """Search for few people of a group, few who lack it, and few whom trimming removes."""
    sizes = [tuple(map(int, of.sum(axis=0))) for of in (before, after)]
    shown = released_table(exact_table(before, sizes[0], (after, sizes[1])), rules)
    x, truth = Unknowns(), {}
    for when, of, size in zip(("before", "after"), (before, after), sizes, strict=True):
        for a, arm in enumerate(ARMS):
            for g in range(len(of)):
                truth[when, g, arm] = int(of[g, a])
                low, high = share_range(shown[f"{arm}_mean_{when}"].iloc[g], size[a], rules)
                if not low <= of[g, a] <= high:  # A share is rounded away from nobody and all.
                    low, high = min(low, of[g, a]), max(high, of[g, a])
                x.add((when, g, arm), low, high)
            n = cell_range(rules.rounded(size[a]), rules.least, rules.rounds)
            x.say([(1, (when, g, arm)) for g in range(len(of))], *n)
    for g, arm in itertools.product(range(len(before)), ARMS):
        name = ("gone", g, arm)
        truth[name] = truth["before", g, arm] - truth["after", g, arm]
        x.add(name, 0, ANY)
        x.say([(1, ("before", g, arm)), (-1, ("after", g, arm)), (-1, name)], 0, 0)
    return judged(x, [name for name, n in truth.items() if rules.small(n)], truth)


def attacked_trimming(seeds, rules):
    """Attack the balance before and after trimming of random groups."""
    total = Counter()
    for seed in seeds:
        before, after = trimmed_groups(np.random.default_rng([66, seed]))
        dropped = before.sum(axis=0) - after.sum(axis=0)
        if (after.sum(axis=0) >= rules.least).all() and not any(map(rules.small, dropped)):
            total += attack_trimming(before, after, rules)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_the_balance_after_trimming_alone_leaves_no_small_count_a_single_value(name):
    found = attacked_trimming(range(200), DisclosureRules(name, LEAST[name]))
    print(name, dict(found))
    assert found["suppressed"] > 100
    assert found["exact"] == 0
