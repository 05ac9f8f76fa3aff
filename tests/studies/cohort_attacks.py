"""Attacks on released pathways, calendar series and diagnostics of cohorts by integer programs.

The attacker knows the rules, and more than a reader usually does: that everybody has one entry, one
record on the index date or one in all windows, and how long each drug is given.
"""

import datetime as dt
import itertools
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from tests.studies.conftest import TinyOmop
from tests.studies.count_attacks import ANY, coarse_range, judged
from tests.studies.release_attacker import Unknowns

from steropes.studies import OmopDatabase
from steropes.studies.cohort_diagnostics.calendar_series import calendar_series
from steropes.studies.cohort_diagnostics.diagnostic_tables import CohortDiagnostics
from steropes.studies.cohorts import CohortTable
from steropes.studies.covariates.window_summaries import NO_WINDOW, WindowSummaries
from steropes.studies.disclosure.disclosive_digit_rounding import log_unit
from steropes.studies.release.cohort_diagnostics_release import released_diagnostics
from steropes.studies.release.pathway_release import released_pathways
from steropes.studies.strategus.treatment_pathways import _durations, _paths

SOUGHT = 12  # At most so many suppressed counts of a database are sought.


class Groups:
    """Unknown numbers of people of each kind, and released counts, which are sums of them.

    Those of an earlier release with one person more, ``earlier``, are in the same program.
    """

    def __init__(self, exact, rules, earlier=None):
        self.x, self.rules, self.truth, self.hidden = Unknowns(), rules, dict(exact), set()
        self.earlier, self.gone = earlier, []
        for kind in exact:
            self.x.add(kind, 0, ANY)
        if earlier is not None:
            self._less(earlier)

    def _less(self, earlier):
        """Take over another release of these kinds, of which one person is missing here."""
        for name, low, high in zip(earlier.x.names, earlier.x.low, earlier.x.high, strict=True):
            self.x.add(("earlier", name), low, high)
        for terms, low, high in earlier.x.rows:
            self.x.say([(factor, ("earlier", name)) for factor, name in terms], low, high)
        self.truth |= {("earlier", name): n for name, n in earlier.truth.items()}
        self.hidden |= {("earlier", name) for name in earlier.hidden}
        kinds = [kind for kind in self.x.names if kind in earlier.truth]
        for kind in kinds:
            self.gone.append(("gone", kind))
            self.truth["gone", kind] = self.truth["earlier", kind] - self.truth[kind]
            self.x.add(("gone", kind), 0, 1)
            self.x.say([(1, ("earlier", kind)), (-1, kind), (-1, ("gone", kind))], 0, 0)
        # Of windows, a person has a record and a sex.
        for part in [PIECES, SEXES] if PIECES[0] in self.truth else [kinds]:
            self.x.say([(1, ("gone", kind)) for kind in part], 1, 1)

    def told(self, kinds, cell, *, low=None, high=None, few=True):
        """State a released count of some kinds, or a range of it.

        Parameters
        ----------
        kinds : mapping or iterable
            The kinds, or the weight of each.
        few : bool
            Whether it is suppressed if the cell is not a count.
        """
        weights = dict(kinds) if isinstance(kinds, dict) else dict.fromkeys(kinds, 1)
        name = ("sum", *sorted(weights.items(), key=str))
        value = sum(w * self.truth[k] for k, w in weights.items())
        own = coarse_range(cell, self.rules, entries=max(weights.values(), default=1) > 1)
        low, high = own[0] if low is None else low, own[1] if high is None else high
        assert low <= value <= high, (name, low, value, high, cell)
        if name in self.truth:
            self.x.say([(1, name)], low, high)
        else:
            self.truth[name] = value
            self.x.add(name, low, high)
            self.x.say([(1, name), *((-w, k) for k, w in weights.items())], 0, 0)
        if few and value and not cell >= 0:
            self.hidden.add(name)
        return name

    def equal(self, kinds, others):
        """State that two sums are equal."""
        self.x.say([*((1, k) for k in kinds), *((-1, k) for k in others)], 0, 0)

    def judged(self, rng=None):
        """Search for the suppressed counts, for few of them where a generator chooses."""
        sought = sorted(self.hidden, key=str)
        if rng is not None and len(sought) > SOUGHT:
            sought = [sought[i] for i in rng.choice(len(sought), SOUGHT, replace=False)]
        return judged(self.x, sought, self.truth)


def shares(rng, n):
    """Probabilities of kinds, of which some are rare."""
    return rng.dirichlet(rng.uniform(0.2, 2, n))


# -- pathways --------------------------------------------------------------------------------------

PEOPLE = {"age": 3, "sex": 2, "index_year": 2}


def exact_pathways(rng):
    """Exact pathways of 8 to 150 people with up to three events of fixed lengths."""
    events = ["a", "b", "a+b", "c"][: rng.integers(2, 5)]
    longest, n = int(rng.integers(1, 4)), int(rng.integers(8, 150))
    possible = [
        path for k in range(1, longest + 1) for path in itertools.product(events, repeat=k)
        if all(x != y for x, y in itertools.pairwise(path))
    ]  # fmt: skip
    chosen = rng.choice(len(possible), n, p=shares(rng, len(possible)))
    days = dict(zip(events, rng.choice([0, 10, 30, 60, 90], len(events)).tolist(), strict=True))
    eras = pd.DataFrame(
        [
            {"group": i, "person": i, "event_name": event, "line": k, "several": "+" in event,
             "days": days[event]}
            for i, of in enumerate(chosen) for k, event in enumerate(possible[of], 1)
        ]
    )  # fmt: skip
    kinds = {
        kind: Counter(rng.choice(k, n, p=shares(rng, k)).tolist()) for kind, k in PEOPLE.items()
    }
    people = [{"kind": k, "value": v, "n": m} for k, of in kinds.items() for v, m in of.items()]
    step = {"reason_id": 10, "reason": "Max path length", "number_records": len(eras),
            "number_subjects": n}  # fmt: skip
    tables = {"paths": _paths(eras), "durations": _durations(eras),
              "people": pd.DataFrame(people), "attrition": pd.DataFrame([step])}  # fmt: skip
    of_target = {"target_cohort_id": 1, "target_cohort_name": "target"}
    counts = Counter(possible[of] for of in chosen)
    return {
        "tables": {name: table.assign(**of_target) for name, table in tables.items()},
        "people": {("path", path): counts[path] for path in possible}
        | {(kind, v): of[v] for kind, of in kinds.items() for v in range(PEOPLE[kind])},
        "days": days,
    }


def release_of_pathways(exact, rules, _):
    """Release the pathways."""
    return released_pathways(exact["tables"], rules)


def attack_pathways(released, exact, rules):
    """Search for suppressed numbers of people by pathway, event, place, age, sex and year."""
    g = Groups(exact["people"], rules)
    paths = [kind for kind in exact["people"] if kind[0] == "path"]
    last = released["attrition"].iloc[-1]
    g.told(paths, last["number_subjects"])
    g.told({k: len(k[1]) for k in paths}, last["number_records"])
    shown = released["paths"].set_index("pathway")["freq"]
    for path in paths:  # Those of nobody, of few people and withheld ones are absent.
        g.told([path], shown.get("-".join(path[1]), np.nan))
    for kind, values in PEOPLE.items():
        own = released["people"].query("kind == @kind").set_index("value")["n"]
        g.equal(paths, [(kind, v) for v in range(values)])
        for v in range(values):
            text = own.get(v, "0")
            cell = -int(text[1:]) if text.startswith("<") else int(text)
            g.told([(kind, v)], cell, low=int(v in own.index) if cell < 0 else None)
    _days_of_events(
        g, released["durations"].set_index(["event_name", "line"]), paths, exact["days"]
    )
    return g.judged()


def _days_of_events(g, table, paths, days):
    """State the numbers of events and their mean days, which follow from those of each event."""
    names = {event: [event] for event in days}
    names |= {"mono-event": [e for e in days if "+" not in e],
              "combination-event": [e for e in days if "+" in e]}  # fmt: skip
    lines = range(1, 1 + max(len(path[1]) for path in paths))
    for (name, events), line in itertools.product(names.items(), ("overall", *lines)):
        weights = Counter()
        for kind in paths:
            for k, event in enumerate(kind[1], 1):
                if event in events and line in ("overall", k):
                    weights[kind] += 1
        if not weights:
            continue
        row = table.loc[(name, str(line))] if (name, str(line)) in table.index else None
        g.told(dict(weights), np.nan if row is None else row["event_count"])
        if row is None or np.isnan(row["duration_average"]):
            continue
        mean = row["duration_average"]
        places = (line,) if name in days else lines if line == "overall" else (line,)
        shown = [table.loc[place, "event_count"] for e in events for k in places
                 if (place := (e, str(k))) in table.index]  # fmt: skip
        step = np.exp(0.51 * log_unit(int(min(shown)), g.rules.least)) * 1.006
        for sign, bound in ((1, mean * step), (-1, mean / step)):
            terms = Counter()
            for kind in weights:
                for k, event in enumerate(kind[1], 1):
                    if event in events and line in ("overall", k):
                        terms[kind] += sign * (days[event] - bound)
            assert sum(f * g.truth[k] for k, f in terms.items()) <= 1e-6, (name, line, mean)
            g.x.say([(f, k) for k, f in terms.items()], -np.inf, 1e-6)


# -- series by calendar period ---------------------------------------------------------------------

MONTHS, SEXES = range(1, 13), (8507, 8532)
INTERVALS = {"m": 1, "q": 3, "y": 12, "c": 12}
COUNTS = {
    "overlap": ("records", "subjects"),
    "start": ("records_start", "subjects_start", "subjects_start_in"),
    "end": ("records_end", "subjects_end", "subjects_end_in"),
}


def exact_calendar(rng):
    """Exact series of 8 to 120 people with one entry each, within a year, by sex."""
    n, share = int(rng.integers(8, 120)), rng.uniform(0.05, 0.95)
    sexes = rng.choice(SEXES, n, p=(share, 1 - share)).tolist()
    first = 1 + rng.choice(12, n, p=shares(rng, 12))
    last = np.minimum(first + rng.geometric(rng.uniform(0.1, 0.9), n) - 1, 12)
    begins = [dt.date(2010, int(m), 1) for m in first]
    ends = [dt.date(2010 + int(m) // 12, int(m) % 12 + 1, 1) - dt.timedelta(1) for m in last]
    with TemporaryDirectory() as name:
        omop = TinyOmop(Path(name))
        people = [omop.person(observed=None, sex=sex) for sex in sexes]
        year = dt.date(2010, 1, 1), dt.date(2010, 12, 31)
        omop.rows["observation_period"] += [(person, *year) for person in people]
        with OmopDatabase(omop.write()) as db, db.workspace() as work:
            CohortTable([1] * n, people, begins, ends).place(work, "entries")
            table = calendar_series(db, work, "entries")
    kinds = itertools.product(itertools.combinations_with_replacement(MONTHS, 2), SEXES)
    counts = Counter(zip(zip(first.tolist(), last.tolist(), strict=True), sexes, strict=True))
    return {"tables": {"time_series": table}, "people": {kind: counts[kind] for kind in kinds}}


def released_tables(exact, rules, _):
    """Release tables of the diagnostics of cohorts."""
    counts = exact.get(
        "counts", pd.DataFrame([{"cohort_definition_id": 1, "entries": 1, "people": 1}])
    )
    made = CohortDiagnostics(counts, exact["tables"], [], exact.get("windows"))
    return released_diagnostics(made, {}, rules, "x")


def attack_calendar(released, exact, rules):
    """Search for suppressed numbers of people by month, quarter, year and sex."""
    g, table = Groups(exact["people"], rules), released["cd_time_series"]
    table = table.assign(month=pd.to_datetime(table["period_begin"]).dt.month).fillna(
        {"gender_id": 0}
    )
    table = table[table["age_group"].isna()]
    rows = table.set_index(["series_type", "calendar_interval", "month", "gender_id"])
    for (interval, length), sex in itertools.product(INTERVALS.items(), (0, *SEXES)):
        of_sex = [kind for kind in exact["people"] if sex in (0, kind[1])]
        for begin in range(1, 13, length):
            inside = range(begin, begin + length)
            groups = {
                "overlap": [k for k in of_sex if k[0][0] <= inside[-1] and k[0][1] >= begin],
                "start": [k for k in of_sex if k[0][0] in inside],
                "end": [k for k in of_sex if k[0][1] in inside],
            }
            own = ("T1", interval, begin, sex)
            for what, kinds in groups.items():
                for name in COUNTS[what]:
                    g.told(kinds, rows.loc[own, name] if own in rows.index else 0)
            observed = ("T2", interval, begin, sex)
            g.told(of_sex, rows.loc[observed, "subjects"] if observed in rows.index else 0)
    return g.judged(np.random.default_rng(1))


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

PIECES = ("-30 to -1", "0", "1 to 30", "none")
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
