"""Attacks on released counts of strata and totals by integer programming.

The attacker knows the rules, which strata add up to which totals, and how long people are at risk
at most.
"""

from collections import Counter

import numpy as np
import pandas as pd
from tests.studies.release_attacker import Unknowns, cell_range

from steropes.studies.disclosure.disclosive_digit_rounding import log_unit
from steropes.studies.strategus.time_to_event import KEYS, SCALES, _scaled

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
        if high - low < 2 or not low <= exact[name] <= high:
            low, high = x.range_of(name, presolve=False)
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


def attack_sums(cells, exact, sums, rules, fewest=0):
    """Search for suppressed counts among released cells, of which some add up to others.

    Parameters
    ----------
    cells, exact : dict
        Released and exact counts by name.
    sums : list of (name, list of names)
        Totals and their parts.
    """
    x = Unknowns()
    for name, cell in cells.items():
        low, high = coarse_range(cell, rules)
        x.add(name, max(low, fewest), high)
    for total, parts in sums:
        x.say([(1, total), *((-1, part) for part in parts)], 0, 0)
    hidden = [name for name, cell in cells.items() if not cell >= 0 and exact[name]]
    return judged(x, hidden, exact)


def inclusion_statistics(rng):
    """Exact statistics of people who meet each of two or three rules, with some probability."""
    rules = int(rng.integers(2, 4))
    met = rng.random((int(rng.integers(8, 150)), rules)) < rng.uniform(0.05, 0.95, rules)
    masks = met @ 2 ** np.arange(rules)
    by_mask = Counter(masks.tolist())
    key = {"mode_id": 1, "cohort_definition_id": 1}
    tables = {
        "cohort_inclusion_result": [
            {"inclusion_rule_mask": m, "person_count": n, **key} for m, n in by_mask.items()
        ],
        "cohort_inclusion_stats": [
            {"rule_sequence": j, "person_count": int(met[:, j].sum()),
             "gain_count": by_mask[2**rules - 1 - 2**j], "person_total": len(met), **key}
            for j in range(rules)
        ],
        "cohort_summary_stats": [
            {"base_count": len(met), "final_count": by_mask[2**rules - 1], **key}
        ],
    }  # fmt: skip
    made = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    for table in made.values():
        for name in [c for c in table if c.endswith(("_count", "_total"))]:
            table[f"{name}_people"] = table[name]
    return made


def attack_statistics(released, exact, rules):
    """Search for suppressed counts of inclusion statistics."""
    cells, truth = {}, {}
    for name, table in exact.items():
        shown = released["cg_" + name.replace("inclusion", "inc")]
        for column in [c for c in table if c.endswith("_count")]:
            for i, n in enumerate(table[column]):
                cells[name, column, i], truth[name, column, i] = shown[column].iloc[i], int(n)
    result, stats = exact["cohort_inclusion_result"], exact["cohort_inclusion_stats"]
    places = [("cohort_inclusion_result", "person_count", i) for i in range(len(result))]
    masks = result["inclusion_rule_mask"].tolist()
    at = dict(zip(masks, places, strict=True))
    every = 2 ** len(stats) - 1
    sums = [
        (("cohort_summary_stats", "base_count", 0), places),
        (("cohort_summary_stats", "final_count", 0), [at[every]] if every in at else []),
    ]
    for j in range(len(stats)):
        met = [at[m] for m in masks if m >> j & 1]
        sums.append((("cohort_inclusion_stats", "person_count", j), met))
        other = every - 2**j
        gained = [at[other]] if other in at else []
        sums.append((("cohort_inclusion_stats", "gain_count", j), gained))
    return attack_sums(cells, truth, sums, rules)


def exact_challenges(rng):
    """Exact dechallenges and rechallenges of one pair of cohorts."""
    attempts = int(rng.integers(0, 60))
    failed = int(rng.binomial(attempts, rng.uniform(0, 1)))
    again = int(rng.binomial(attempts - failed, rng.uniform(0.2, 1)))
    failed_again = int(rng.binomial(again, rng.uniform(0, 1)))
    people = attempts + int(rng.integers(0, 20))
    counts = {
        "num_exposure_eras": people + 9, "num_persons_exposed": people + 5, "num_cases": people,
        "case_persons": people, "dechallenge_attempt": attempts,
        "dechallenge_success": attempts - failed, "dechallenge_fail": failed,
        "rechallenge_attempt": again, "rechallenge_success": again - failed_again,
        "rechallenge_fail": failed_again,
    }  # fmt: skip
    return pd.DataFrame([counts])


def attack_challenges(released, exact, rules):
    """Search for suppressed numbers of people with dechallenges and rechallenges."""
    names = [f"{c}_{how}" for c in ("dechallenge", "rechallenge")
             for how in ("attempt", "success", "fail")]  # fmt: skip
    sums = [(names[k], names[k + 1 : k + 3]) for k in (0, 3)]
    cells, truth = (table[names].iloc[0].to_dict() for table in (released, exact))
    return attack_sums(cells, truth, sums, rules)


def exact_baseline(rng):
    """Exact covariates of a target: sexes, age groups and years, with its entries."""
    n = int(rng.integers(8, 150))
    key = {
        "setting_id": "a",
        "cohort_type": "Target",
        "target_cohort_id": 1,
        "outcome_cohort_id": 0,
    }
    rows = []
    for analysis, levels in ((1, 2), (3, 4), (6, 3)):
        groups = rng.choice(levels, n, p=rng.dirichlet(rng.uniform(0.3, 3, levels)))
        for level, count in Counter(groups.tolist()).items():
            rows.append(
                {**key, "covariate_id": 1000 * level + analysis, "persons": count, "people": n,
                 "sum_value": count, "average_value": count / n}
            )  # fmt: skip
    counts = {
        **key, "row_count": n, "person_count": n, "min_exposure_time": 1.0,
        "mean_exposure_time": 30.0, "max_exposure_time": 90.0,
    }  # fmt: skip
    return {
        "c_covariates": pd.DataFrame(rows),
        "c_cohort_counts": pd.DataFrame([counts]),
        "c_covariates_continuous": pd.DataFrame(),
    }


def attack_baseline(released, exact, rules):
    """Search for suppressed numbers of people with covariates of which everybody has one."""
    table, n = exact["c_covariates"], int(exact["c_cohort_counts"]["row_count"].iloc[0])
    ids = table["covariate_id"].tolist()
    cells = dict(zip(ids, released["c_covariates"]["sum_value"], strict=True))
    truth = dict(zip(ids, map(int, table["sum_value"]), strict=True))
    cells["all"], truth["all"] = released["c_cohort_counts"]["row_count"].iloc[0], n
    sums = [("all", [i for i in ids if i % 1000 == kind]) for kind in (1, 3, 6)]
    return attack_sums(cells, truth, sums, rules, fewest=1)


TIMES = ("per 1-day", "per 30-day", "per 365-day")


def exact_times(rng):
    """Exact numbers of events by days since the target, most of them soon after it."""
    n = int(rng.integers(20, 600))
    days = np.rint(rng.exponential(rng.uniform(3, 200), n) * rng.choice([1, 1, -1], n))
    rows = pd.DataFrame(dict.fromkeys(KEYS, 1), index=range(n)).assign(
        days=days.astype(int), person=rng.integers(0, max(n // 2, 5), n), num_events=1
    )
    return pd.concat([_scaled(rows, s, *SCALES[s]) for s in TIMES], ignore_index=True)


def attack_times(released, exact, rules):
    """Search for the numbers of events of periods that are not released."""
    x, truth = Unknowns(), {}
    shown = released.set_index(["time_scale", "time_to_event"])["num_events"]
    own = exact.set_index(["time_scale", "time_to_event"])["num_events"]
    periods = {("per 1-day", d) for d in range(-100, 101)}
    periods |= {("per 30-day", d) for d in range(-1110, 1111, 30)}
    periods |= {("per 365-day", d) for d in range(-3650, 3651, 365)}
    for name in sorted(periods | {*own.index}):
        cell = shown.get(name, np.nan)
        # Rows that are not released may have many events of few people, or none.
        x.add(name, *coarse_range(cell, rules))
        truth[name] = int(own.get(name, 0))
    for sign in (1, -1):
        for k in range(3):
            days = [("per 1-day", sign * d) for d in range(max(30 * k, 1), 30 * k + 30)]
            x.say([(1, ("per 30-day", sign * 30 * (k + 1))), *((-1, d) for d in days)], 0, 0)
        for k in range(3):
            months = [("per 30-day", sign * m) for m in range(30, 1111, 30)
                      if 365 * k <= m - 30 and m <= 365 * (k + 1)]  # fmt: skip
            x.say([(1, ("per 365-day", sign * 365 * (k + 1))), *((-1, m) for m in months)],
                  0, np.inf)  # fmt: skip
    for scale in TIMES[1:]:
        x.say([(1, (scale, 0)), (-1, (TIMES[0], 0))], 0, 0)
    hidden = [name for name in own.index if name not in shown.index]
    return judged(x, hidden[:12], truth)
