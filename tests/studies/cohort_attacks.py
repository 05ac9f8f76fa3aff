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
from steropes.studies.disclosure.disclosive_digit_rounding import log_unit
from steropes.studies.release.cohort_diagnostics_release import released_diagnostics
from steropes.studies.release.pathway_release import released_pathways
from steropes.studies.strategus.treatment_pathways import _durations, _paths

# Parts of the time around the index, in one of which a person has a record.
PIECES = ("-30 to -1", "0", "1 to 30", "none")
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
