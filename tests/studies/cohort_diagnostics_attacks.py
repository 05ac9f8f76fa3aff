"""Attacks on released diagnostics of cohorts by integer programs: one release, and two.

The attacker knows the rules, and more than a reader usually does: that everybody has one record on
the index date, one visit of a kind, or one record in all windows.
"""

import itertools
from collections import Counter

import numpy as np
import pandas as pd
from tests.studies.cohort_attacks import PIECES, SEXES, Groups, released_tables, shares

from steropes.studies.covariates.window_summaries import NO_WINDOW, WindowSummaries

# -- index events and visits -----------------------------------------------------------------------


def _cohort(n):
    return pd.DataFrame([{"cohort_definition_id": 1, "entries": n, "people": n}])


def exact_index(rng):
    """Exact concepts of 8 to 150 people with one record each; sources belong to one concept."""
    n = int(rng.integers(8, 150))
    kinds = [
        (c, 10 * c + s) for c in range(1, rng.integers(2, 4)) for s in range(rng.integers(1, 4))
    ]
    people = rng.choice(len(kinds), n, p=shares(rng, len(kinds)))
    counts = Counter(kinds[k] for k in people)
    return index_of({kind: counts[kind] for kind in kinds})


def index_of(counts):
    """Exact concepts of so many people of each concept and source concept."""
    rows, n = [], sum(counts.values())
    for place, field in enumerate(("condition_concept_id", "condition_source_concept_id")):
        of = Counter()
        for kind, m in counts.items():
            of[kind[place]] += m
        rows += [{"cohort_id": 1, "domain_table": "condition_occurrence", "domain_field": field,
                  "concept_id": c, "concept_count": m, "subject_count": m}
                 for c, m in of.items() if m]  # fmt: skip
    tables = {"index_event_breakdown": pd.DataFrame(rows)}
    return {"tables": tables, "counts": _cohort(n), "people": counts}


def attack_index(released, exact, rules, g=None):
    """Search for suppressed numbers of people by concept and source concept."""
    g = g or Groups(exact["people"], rules)
    table = released["cd_index_event_breakdown"]
    g.told([*exact["people"]], released["cd_cohort_count"]["cohort_subjects"].iloc[0])
    for place, field in enumerate(("condition_concept_id", "condition_source_concept_id")):
        own = table[table["domain_field"] == field].set_index("concept_id")
        for concept in sorted({kind[place] for kind in exact["people"]}):
            kinds = [kind for kind in exact["people"] if kind[place] == concept]
            for name in ("concept_count", "subject_count"):
                g.told(kinds, own.loc[concept, name] if concept in own.index else 0)
    return g.judged()


CONTEXTS = ("Before", "During visit", "On visit start", "After")


def exact_visits(rng):
    """Exact visits of 8 to 150 people, one on the index date and maybe one before and one after."""
    n, visits = int(rng.integers(8, 150)), (9201, 9202, 9203)
    parts = {"index": CONTEXTS[1:3], "before": CONTEXTS[:1], "after": CONTEXTS[3:]}
    counts, rows = {}, []
    for part, contexts in parts.items():
        kinds = [(c, v) for c in contexts for v in visits[: rng.integers(2, 4)]]
        share = 1.0 if part == "index" else rng.choice([1.0, rng.uniform(0.3, 1)])
        p = [*(share * shares(rng, len(kinds))), 1 - share]
        had = Counter(rng.choice(len(p), n, p=p).tolist())
        counts |= {(part, *kind): had[i] for i, kind in enumerate([*kinds, ("", 0)])}
        rows += [{"cohort_id": 1, "visit_concept_id": v, "visit_context": c, "subjects": had[i]}
                 for i, (c, v) in enumerate(kinds) if had[i]]  # fmt: skip
    return {"tables": {"visit_context": pd.DataFrame(rows)}, "counts": _cohort(n), "people": counts}


def attack_visits(released, exact, rules):
    """Search for suppressed numbers of people by visit."""
    g = Groups(exact["people"], rules)
    rows = released["cd_visit_context"].set_index(["visit_context", "visit_concept_id"])["subjects"]
    for part in ("index", "before", "after"):
        kinds = [kind for kind in exact["people"] if kind[0] == part]
        g.told(kinds, released["cd_cohort_count"]["cohort_subjects"].iloc[0])
        if not g.truth[part, "", 0]:  # The attacker knows that everybody has such a visit.
            g.told([(part, "", 0)], 0)
        for kind in kinds:
            if kind[1]:
                g.told([kind], rows.get(kind[1:], 0))
    return g.judged()


# -- overlap of cohorts ----------------------------------------------------------------------------


def _orders(cohorts):
    """All memberships in cohorts, with the order of the first entries of members."""
    found = set()
    for ranks in itertools.product((None, *range(cohorts)), repeat=cohorts):
        used = sorted({r for r in ranks if r is not None})
        found.add(tuple(None if r is None else used.index(r) for r in ranks))
    return sorted(found - {(None,) * cohorts}, key=str)


def exact_overlap(rng):
    """Exact numbers of people that three cohorts of 8 to 150 people share."""
    kinds = _orders(3)
    people = rng.choice(len(kinds), int(rng.integers(8, 150)), p=rng.dirichlet([0.3] * len(kinds)))
    return overlap_of({kind: int((people == i).sum()) for i, kind in enumerate(kinds)})


def overlap_of(counts):
    """Exact numbers that three cohorts share, of so many people of each order."""

    def size(condition):
        return sum(n for kind, n in counts.items() if condition(kind))

    rows, whole = [], [size(lambda k, i=i: k[i] is not None) for i in range(3)]
    for i, j in itertools.combinations(range(3), 2):
        shared = {k: n for k, n in counts.items() if None not in (k[i], k[j])}
        both = sum(shared.values())
        parts = [sum(n for k, n in shared.items() if np.sign(k[i] - k[j]) == s) for s in (-1, 0, 1)]
        if both:
            names = ("before_subjects", "same_day_subjects", "after_subjects")
            rows.append({"cohort_id": i, "other_cohort_id": j, "both_subjects": both,
                         **dict(zip(names, parts, strict=True)), "only_subjects": whole[i] - both,
                         "other_only_subjects": whole[j] - both})  # fmt: skip
    table = pd.DataFrame(rows, columns=[
        "cohort_id", "other_cohort_id", "both_subjects", "before_subjects", "same_day_subjects",
        "after_subjects", "only_subjects", "other_only_subjects"])  # fmt: skip
    sizes = [{"cohort_definition_id": i, "entries": n, "people": n} for i, n in enumerate(whole)]
    return {"tables": {"cohort_overlap": table}, "counts": pd.DataFrame(sizes), "people": counts}


def attack_overlap(released, exact, rules, g=None):
    """Search for suppressed numbers of people in two cohorts, or in one alone."""
    g, kinds = g or Groups(exact["people"], rules), [*exact["people"]]
    sizes = released["cd_cohort_count"].set_index("cohort_id")["cohort_subjects"]
    for i in range(3):
        g.told([k for k in kinds if k[i] is not None], sizes[i])
    rows = released["cohort_overlap"].set_index(["cohort_id", "other_cohort_id"])
    names = {"before_subjects": -1, "same_day_subjects": 0, "after_subjects": 1}
    for i, j in itertools.combinations(range(3), 2):
        both = [k for k in kinds if None not in (k[i], k[j])]
        shown = (i, j) in rows.index
        g.told(both, rows.loc[(i, j), "both_subjects"] if shown else 0)
        for name, sign in names.items():
            own = [k for k in both if np.sign(k[i] - k[j]) == sign]
            g.told(own, rows.loc[(i, j), name] if shown else 0)
        for one, other in ((i, j), (j, i)):
            alone = [k for k in kinds if k[one] is not None and k[other] is None]
            few = rules.small(sum(exact["people"][k] for k in alone))
            g.told(alone, np.nan, few=few)
    return g.judged()


# -- covariates of windows -------------------------------------------------------------------------

WINDOWS = {1: PIECES[:1], 2: PIECES[1:2], 3: PIECES[2:3], 4: PIECES[:3], 5: PIECES[:2]}
DAYS = {1: (-30, -1), 2: (0, 0), 3: (1, 30), 4: (-30, 30), 5: (-30, 0)}
CONDITION, SEX = 7_101, 1


def exact_windows(rng):
    """Exact covariates of 8 to 150 people, of whom each has one record in one of the windows."""
    n = int(rng.integers(8, 150))
    had = Counter(rng.choice(PIECES, n, p=shares(rng, 4)).tolist())
    sexes = Counter(rng.choice(SEXES, n, p=shares(rng, 2)).tolist())
    return windows_of({**{p: had[p] for p in PIECES}, **{s: sexes[s] for s in SEXES}})


def windows_of(had):
    """Exact covariates of so many people with a record in each window, and of each sex."""
    n, sexes = sum(had[p] for p in PIECES), {s: had[s] for s in SEXES if had[s]}
    rows = [{"time_id": k, "covariate_id": CONDITION, "sum_value": sum(had[p] for p in pieces)}
            for k, pieces in WINDOWS.items()]  # fmt: skip
    rows += [{"time_id": NO_WINDOW, "covariate_id": 1000 * sex + SEX, "sum_value": m}
             for sex, m in sexes.items()]  # fmt: skip
    ones = pd.DataFrame(rows).query("sum_value > 0").assign(cohort_id=1, entries=n)
    ones["persons"] = ones["sum_value"]
    values = pd.DataFrame(columns=[
        "cohort_id", "time_id", "covariate_id", "count_value", "persons", "average_value",
        "standard_deviation", "min_value", "max_value", "p_10_value", "p_25_value",
        "median_value", "p_75_value", "p_90_value"])  # fmt: skip
    made = WindowSummaries(
        ones.reset_index(drop=True), values, pd.DataFrame(), (), tuple(DAYS.values())
    )
    return {"tables": {}, "counts": _cohort(n), "windows": made, "people": had}


def attack_windows(released, exact, rules, g=None):
    """Search for suppressed numbers of people with a record in a window, and of sexes."""
    g = g or Groups(exact["people"], rules)
    size = released["cd_cohort_count"]["cohort_subjects"].iloc[0]
    g.told(PIECES, size)
    g.equal(PIECES, SEXES)
    table = released["cd_temporal_covariate_value"].set_index(["time_id", "covariate_id"])
    told = [(k, CONDITION, pieces) for k, pieces in WINDOWS.items()]
    told += [(NO_WINDOW, 1000 * sex + SEX, (sex,)) for sex in SEXES]
    for time, covariate, kinds in told:
        own = (time, covariate)
        g.told(kinds, table.loc[own, "sum_value"] if own in table.index else 0)
    if rules.small(exact["people"]["none"]):
        g.told(["none"], np.nan)
    return g.judged()


# -- two releases ----------------------------------------------------------------------------------

AGAIN = {
    "index-events": (exact_index, index_of, attack_index),
    "overlap": (exact_overlap, overlap_of, attack_overlap),
    "windows": (exact_windows, windows_of, attack_windows),
}


def one_less(counts, rng):
    """Leave one person out; of windows, the person has a record and a sex."""
    parts = [PIECES, SEXES] if PIECES[0] in counts else [[*counts]]
    for kinds in parts:
        there = [kind for kind in kinds if counts[kind]]
        gone = there[rng.choice(len(there), p=np.array([counts[k] for k in there], float)
                                / sum(counts[k] for k in there))]  # fmt: skip
        counts = {kind: n - (kind == gone) for kind, n in counts.items()}
    return counts


def attack_again(kind, seed, rules):
    """Attack a release, and one without one person, in one program.

    Returns
    -------
    Counter
        What is found of the suppressed numbers of both releases, and under "person" in how many
        sums of kinds it is known whether the missing person belongs to them.
    """
    made, of, attack = AGAIN[kind]
    rng = np.random.default_rng(seed)
    both = [made(rng)]
    both.append(of(one_less(both[0]["people"], rng)))
    g = None
    for exact in both:
        g = Groups(exact["people"], rules, g)
        found = attack(released_tables(exact, rules, "x"), exact, rules, g)
    known = [g.x.range_of(name) for name in g.gone]
    found["person"] = sum(low == 1 for low, _ in known)
    return found
