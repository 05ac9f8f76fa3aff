"""No small count follows from the released tables of case-only designs and scans."""

from collections import Counter

import numpy as np
import pytest
from tests.studies.design_attacks import (
    attack_crossover,
    attack_nested,
    attack_of_two,
    attack_scan,
    attack_trial,
    crossover,
    crossover_of_two,
    nested,
)
from tests.studies.release_attacker import LEAST, RULES

from steropes.studies.case_only.released_ratios import released_ratios
from steropes.studies.disclosure import DisclosureRules

ATTACKS = {
    "case-crossover": lambda rng, rules: attack_crossover(*crossover(rng), rules),
    "case-time-control": lambda rng, rules: attack_crossover(*crossover(rng, True), rules),
    "nested case-control": lambda rng, rules: attack_nested(*nested(rng), rules),
    "two exposures": lambda rng, rules: attack_of_two(*crossover_of_two(rng), rules),
    "target trial": attack_trial,
    "scan": attack_scan,
}


def attacked(kind, rules, databases):
    total = Counter()
    for seed in range(databases):
        rng = np.random.default_rng([seed, len(kind)])
        total += ATTACKS[kind](rng, DisclosureRules(rules, LEAST[rules]))
    return total


def test_counts_and_ratios_beside_few_sets_with_the_same_exposures_are_rounded():
    """Two sets have an exposed case and two exposed references, which exact counts told."""
    result, windows = crossover(np.random.default_rng([86, len("case-crossover")]))
    exact = result.estimates.iloc[0]
    line = released_ratios(result, DisclosureRules()).iloc[0]
    assert line["note"].startswith("counts are rounded")
    assert int(line["exposed_cases"]) % 5 == 0
    assert exact["exposed_cases"] % 5
    assert abs(np.log(line["ratio"] / exact["ratio"])) > 0.005
    assert attack_crossover(result, windows, DisclosureRules())["exact"] == 0


@pytest.mark.sampled
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("kind", ATTACKS)
def test_no_small_count_has_a_single_possible_value(kind, rules):
    assert attacked(kind, rules, 3)["exact"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("kind", ATTACKS)
def test_no_small_count_of_many_databases_has_a_single_possible_value(kind, rules):
    found = attacked(kind, rules, 60)
    print(kind, rules, dict(found))
    assert found["exact"] == 0
