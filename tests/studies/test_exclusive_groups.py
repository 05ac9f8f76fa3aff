"""Shares of groups of which every person has one, such as ages: what do they reveal together?"""

import numpy as np
import pandas as pd
import pytest
from tests.studies.test_tidied_covariates import made

from steropes.designs import covariate_balance
from steropes.studies.disclosure import Bound, DisclosureRules, fraction
from steropes.studies.disclosure.group_share_suppression import further_hidden
from steropes.studies.release.grid_covariates_and_scores import released_balance
from steropes.studies.results.tables_shared_by_outcomes import balance_rows

RULES = DisclosureRules()


def possible(people, shares, further=0):
    """Return the hidden counts that released shares of all other groups allow."""
    ranges = []
    for share in shares:
        fitting = [k for k in range(people + 1) if fraction(k, people, 5) == share]
        ranges.append((min(fitting), max(fitting)))
    low, high = (sum(ends) for ends in zip(*ranges, strict=True))
    return [c for c in range(1, 5) if low + 5 * further <= people - c <= (high, people)[further]]


def test_a_hidden_age_does_not_follow_from_the_shares_of_the_others():
    sizes = {"target": (202, 96, 9, 4), "comparator": (150, 100, 40, 21)}
    group = np.concatenate([np.repeat(range(4), sizes[arm]) for arm in ("target", "comparator")])
    treated = np.repeat([1, 0], (311, 311))
    x = {1000 * (k + 1) + 3: group == k for k in range(4)}
    balance = covariate_balance(made(x, 622), treated, np.ones(622))
    covariates = pd.DataFrame({"covariate_id": [*x], "covariate_analysis_id": 3})
    table = released_balance(
        pd.DataFrame(balance_rows(balance, {})), covariates, DisclosureRules()
    ).set_index("covariate_id")
    # Exact shares of the others would be those of four people alone.
    assert possible(311, [fraction(k, 311, 5) for k in sizes["target"][:3]]) == [4]
    for when in ("before", "after"):
        shown = table[f"target_mean_{when}"]
        assert shown.loc[4003] < 0
        assert shown.isna().sum() == 1
        gone = shown.index[shown.isna()]
        assert possible(311, shown[shown > 0].tolist(), further=1) == [1, 2, 3, 4]
        # The missing share would follow from others of the same covariate.
        others = [f"mean_{when}", f"std_diff_{when}", f"std_diff_var_{when}"]
        assert table.loc[gone, others].isna().all(axis=None)
        assert table[f"comparator_mean_{when}"].notna().all()


@pytest.mark.parametrize("seed", [1])
def test_no_hidden_count_of_random_groups_is_narrowed(seed):
    rng = np.random.default_rng(seed)
    withheld = narrowed = 0
    for _ in range(400):
        k, people, few = (int(rng.integers(*ends)) for ends in ((2, 9), (60, 400), (1, 5)))
        rest = rng.multinomial(people - few - 5 * k, rng.dirichlet(np.ones(k))) + 5
        shares = [fraction(int(n), people, 5) for n in rest]
        if any(isinstance(share, Bound) for share in shares):
            continue
        narrowed += len(possible(people, shares)) < 4
        hidden = np.arange(k + 1) == k
        further = further_hidden(np.append(rest, few), hidden, people, RULES)
        if further is None:
            assert possible(people, shares) == [1, 2, 3, 4]
        else:
            withheld += 1
            left = [share for i, share in enumerate(shares) if i != further]
            assert not left or len(possible(people, left, further=1)) == 4
    assert 0 < narrowed <= withheld < 20


def test_groups_that_not_everybody_has_are_left_alone():
    counts, hidden = np.array([202, 96, 9, 4]), np.array([False, False, False, True])
    assert further_hidden(counts, hidden, 311, RULES) is not None
    assert further_hidden(counts, hidden, 330, RULES) is None
    assert further_hidden(counts, np.zeros(4, bool), 311, RULES) is None
