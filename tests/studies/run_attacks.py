"""Attack what is released of many random databases, and print what follows.

    python -m tests.studies.run_attacks --databases 200 --seconds 2700 question series grid

Each kind of table gets an equal part of the time, and the totals are printed after each round. The
columns are the numbers of databases, of suppressed counts, of those with a single possible value
and of those with two; of equal outputs, the numbers that were compared and the pairs that differ.
Results are added to the file of ``--results``, if it is given, and databases that are in it are not
attacked again.
"""

import argparse
import json
import tempfile
import time
import traceback
import warnings
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
from tests.studies import (
    test_count_attacks,
    test_design_attacks,
    test_equal_outputs,
    test_equal_surveillance_outputs,
)
from tests.studies.release_attacker import LEAST, RULES
from tests.studies.series_grid_attacks import (
    attack_series_grid,
    exact_series_grid,
    released_series_grid,
)

from steropes.studies.disclosure import DisclosureRules


def of_tables(made, release, attack, seed):
    """Attack one database, released under both rule sets."""
    exact = made(np.random.default_rng(seed))
    for name in RULES:
        rules = DisclosureRules(name, LEAST[name])
        yield name, attack(release(exact, rules, "x"), exact, rules)


def of_designs(attack, seed):
    """Attack one case-only design, target trial or scan."""
    for name in RULES:
        rules = DisclosureRules(name, LEAST[name])
        yield name, attack(np.random.default_rng(seed), rules)


def of_outputs(kind, seed):
    """Compare the outputs for two hidden numbers of outcomes."""
    with tempfile.TemporaryDirectory() as folder:
        found = test_equal_outputs.compared_outputs(kind, seed[1], Path(folder))
    for name, (counted, differs) in found.items():
        for text in differs:
            print(kind, name, seed, text, flush=True)
        yield name, Counter(counted, different=bool(differs))


def of_commands(kind, seed):
    """Compare the outputs of commands for two hidden numbers of outcomes."""
    for name in RULES:
        with tempfile.TemporaryDirectory() as folder:
            differs = test_equal_surveillance_outputs.attacked(kind, name, seed[1], Path(folder))
        for text in differs:
            print(kind, name, seed, text, flush=True)
        yield name, Counter(compared=2, different=bool(differs))


KINDS = {
    **{
        name: partial(of_tables, *parts) for name, (*parts, _) in test_count_attacks.ATTACKS.items()
    },
    "series-grid": partial(of_tables, exact_series_grid, released_series_grid, attack_series_grid),
    **{
        name.replace(" ", "-"): partial(of_designs, attack)
        for name, attack in test_design_attacks.ATTACKS.items()
    },
    "outputs-of-studies": partial(of_outputs, "study"),
    "outputs-of-series": partial(of_outputs, "series"),
    **{
        f"outputs-of-{name.replace(' ', '-')}": partial(of_commands, name)
        for name in test_equal_surveillance_outputs.MADE
    },
}


class Attacked:
    """What was found in the databases of one kind so far."""

    def __init__(self, kind, first, databases, results):
        self.kind, self.seeds = kind, iter((first, seed) for seed in databases)
        self.found = {name: Counter() for name in RULES}
        self.seconds, self.finished, self.results = 0.0, False, results
        self.earlier = {}
        for line in () if results is None or not results.exists() else results.open():
            of, *seed, found = json.loads(line)
            if of == kind:
                self.earlier[tuple(seed)] = found

    def attack_another(self):
        """Attack the next database, unless its results are known."""
        seed, begin = next(self.seeds, None), time.process_time()
        if seed is None:
            self.finished = True
            return
        of_rules = self.earlier.get(seed)
        if of_rules is None:
            of_rules = self._attack(seed)
            if self.results is not None:
                with self.results.open("a") as file:
                    file.write(json.dumps([self.kind, *seed, of_rules]) + "\n")
        for name, found in of_rules.items():
            self.found[name] += Counter(found, databases=1)
        self.seconds += time.process_time() - begin

    def _attack(self, seed):
        """What is found in one database, by rules."""
        of_rules = {name: {} for name in RULES}
        try:
            for name, found in KINDS[self.kind](seed):
                of_rules[name] = {key: int(number) for key, number in found.items()}
                if found["exact"] or found["two"]:
                    print(self.kind, name, seed, dict(found), flush=True)
        except Exception:
            of_rules[RULES[0]]["errors"] = 1
            print(self.kind, seed, traceback.format_exc(limit=-3), flush=True)
        return of_rules

    def __str__(self):
        parts = [f"{name} {dict(found)}" for name, found in self.found.items()]
        return f"{self.kind}: {'; '.join(parts)}; {self.seconds:.0f} s"


def main():
    """Read the options and attack until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}; default: all")
    parser.add_argument("--databases", type=int, default=200, help="at most, of each kind")
    parser.add_argument("--seconds", type=float, default=2700, help="processor time of all")
    parser.add_argument("--first", type=int, default=68, help="first number of the seeds")
    parser.add_argument("--start", type=int, default=0, help="second number of the first seed")
    parser.add_argument("--results", type=Path, help="a file of earlier results, to go on with")
    asked = parser.parse_args()
    if unknown := {*asked.kinds} - {*KINDS}:
        parser.error(f"there is no {min(unknown)}, only {', '.join(KINDS)}")
    warnings.simplefilter("ignore")
    databases = range(asked.start, asked.start + asked.databases)
    running = [
        Attacked(kind, asked.first, databases, asked.results) for kind in asked.kinds or KINDS
    ]
    shown = 0.0
    while time.process_time() < asked.seconds and not all(of.finished for of in running):
        of = min((of for of in running if not of.finished), key=lambda of: of.seconds)
        of.attack_another()
        if time.process_time() > shown + 120:
            shown = time.process_time()
            print(*running, sep="\n", flush=True)
    print(*running, sep="\n", flush=True)


if __name__ == "__main__":
    main()
