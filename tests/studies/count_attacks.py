"""Attacks on released counts of strata and totals by integer programming.

The attacker knows the rules, which strata add up to which totals, and how long people are at risk
at most.
"""

from collections import Counter

import numpy as np
import pandas as pd
from tests.studies.release_attacker import Unknowns, cell_range

from steropes.studies.disclosure.disclosive_digit_rounding import log_unit

ANY = 10_000


def coarse_range(cell, rules, entries=False):
    """The exact counts that a cell of `DisclosureRules.coarse` stands for."""
    least = rules.least
    if cell != cell:
        return 0, ANY
    n = int(cell)
    if n == -least:
        return 1, ANY if entries else least - 1
    if n <= 0 or rules.rounds:
        return cell_range(n, least, rules.rounds)
    return max(n - least // 2, least), n + least // 2


def judged(x, hidden, exact):
    """Count suppressed counts, those with a single possible value and those with two."""
    found = Counter()
    for name in hidden:
        low, high = x.range_of(name)
        assert low <= exact[name] <= high, (name, low, exact[name], high)
        found["suppressed"] += 1
        found["exact"] += low == high
        found["two"] += high - low == 1
    return found


def people_of(rng, n, length):
    """People with strata, days at risk of which most have all, and an outcome that few have."""
    shares = rng.dirichlet(rng.uniform(0.4, 3, 3))
    days = np.where(rng.random(n) < rng.uniform(0.5, 1), length, rng.integers(1, length + 1, n))
    return pd.DataFrame(
        {
            "age_group_id": rng.choice([1, 2, 3], n, p=shares),
            "gender_id": rng.choice([8507, 8532], n, p=(s := rng.uniform(0.05, 0.95), 1 - s)[:2]),
            "start_year": rng.choice([2010, 2011], n, p=(0.2, 0.8)),
            "days": days,
            "excluded": np.where(rng.random(n) < 0.1, days // 2, 0),
            "outcome": rng.random(n) < rng.uniform(0.02, 0.4),
        }
    )


STRATA = ["age_group_id", "gender_id", "start_year"]


def exact_rates(people, by):
    """The exact table of incidence rates of people, for all combinations of strata."""
    parts = []
    for mask in range(2 ** len(by)):
        some = [name for i, name in enumerate(by) if mask >> i & 1]
        groups = people.groupby(some) if some else [((), people)]
        for key, of in groups:
            cases = int(of["outcome"].sum())
            parts.append(
                {
                    **dict.fromkeys(STRATA), **dict(zip(some, np.atleast_1d(key), strict=True)),
                    "persons_at_risk_pe": len(of), "persons_at_risk": len(of),
                    "person_days_pe": int(of["days"].sum()),
                    "person_days": int((of["days"] - of["excluded"]).sum()),
                    **dict.fromkeys(
                        ("person_outcomes_pe", "person_outcomes", "outcomes_pe", "outcomes"), cases
                    ),
                }
            )  # fmt: skip
    keys = {"target_cohort_definition_id": 1, "tar_id": 1, "outcome_id": 1}
    return pd.DataFrame(parts).assign(**keys).sort_values(STRATA).reset_index(drop=True)


def totals_of(table):
    """Each row's key, and the keys of the total and the strata of every stratification."""
    rows = [tuple(None if v != v or v is None else int(v) for v in line)
            for line in table[STRATA].itertuples(index=False)]  # fmt: skip
    splits = {}
    for row in rows:
        for i, value in enumerate(row):
            if value is not None:
                splits.setdefault((tuple(v if j != i else None for j, v in enumerate(row)), i),
                                  []).append(row)  # fmt: skip
    return rows, splits


def attack_rates(released, exact, rules, length):
    """Search for suppressed counts of people and outcomes of one released table of rates."""
    x, hidden, truth = Unknowns(), [], {}
    rows, _ = totals_of(released)
    all_rows, splits = totals_of(exact)
    known = dict(zip(rows, released.to_dict("records"), strict=True))
    real = dict(zip(all_rows, exact.to_dict("records"), strict=True))
    for row in all_rows:
        line = known.get(row, {})
        for name in ("persons_at_risk", "person_outcomes"):
            cell = line.get(name, np.nan)
            low, high = coarse_range(cell, rules)
            # Rows of nobody are absent.
            x.add((row, name), max(low, int(row in known and name != "person_outcomes")), high)
            truth[row, name] = int(real[row][name])
            if not cell >= 0 and truth[row, name]:
                hidden.append((row, name))
        people, days = line.get("persons_at_risk", np.nan), line.get("person_days_pe", np.nan)
        x.add((row, "days"), 0, ANY * length)
        x.say([(1, (row, "days")), (-length, (row, "persons_at_risk"))], -np.inf, 0)
        x.say([(1, (row, "persons_at_risk")), (-1, (row, "person_outcomes"))], 0, np.inf)
        if days > 0:
            factor = np.exp(0.51 * log_unit(int(people), rules.least)) * 1.02
            mean = days / people
            for sign, bound in ((1, mean * factor), (-1, mean / factor)):
                x.say([(sign, (row, "days")), (-sign * bound, (row, "persons_at_risk"))],
                      -np.inf, 0)  # fmt: skip
    for (total, _), parts in splits.items():
        for name in ("persons_at_risk", "person_outcomes", "days"):
            x.say([(1, (total, name)), *((-1, (part, name)) for part in parts)], 0, 0)
    return judged(x, hidden, truth)
