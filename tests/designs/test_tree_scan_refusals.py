"""Inputs and settings that no tree scan can use are refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.designs.tree_scan_examples import COUNTS, LEAVES, TIMES, TREE, people

from steropes import DataError
from steropes.designs.surveillance import (
    sequential_tree_scan,
    tree_scan,
    tree_scan_people,
    tree_temporal_scan,
)


def scan(**changes):
    return lambda: tree_scan(**{"counts": COUNTS, "tree": TREE, "replicates": 9, **changes})


def persons(**changes):
    given = {"records": people(20), "tree": TREE, "probability": 0.5, "replicates": 9, **changes}
    return lambda: tree_scan_people(**given)


def over_time(**changes):
    given = {"counts": TIMES, "tree": TREE, "times": (1, 28), "replicates": 9, **changes}
    return lambda: tree_temporal_scan(**given)


def over_looks(**changes):
    given = {"counts": COUNTS.assign(look=1), "tree": TREE, "looks": 2, "replicates": 9, **changes}
    return lambda: sequential_tree_scan(**given)


CIRCLE = pd.concat([TREE, pd.DataFrame({"node": ["Root"], "parent": ["Node1"]})])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (scan(counts=COUNTS.drop(columns="cases")), "lacks the columns 'cases'"),
        (scan(counts=COUNTS.assign(cases=-1)), "cases: row 0"),
        (scan(counts=COUNTS.assign(cases=0.5)), "cases: row 0"),
        (scan(counts=COUNTS.assign(expected=np.nan)), "expected: row 0"),
        (scan(counts=COUNTS.assign(expected=-1.0)), "expected: row 0"),
        (scan(counts=COUNTS.assign(expected=[0.0] + [1.0] * 11)), "'Leaf1' has cases, but none"),
        (scan(counts=COUNTS.assign(cases=0)), "no cases"),
        (scan(counts=COUNTS.assign(node="Leaf1")), "two rows for 'Leaf1'"),
        (scan(counts=COUNTS.assign(node=[*LEAVES[:11], "new"])), "tree lacks 1 of the nodes"),
        (scan(counts=COUNTS.assign(node=[*LEAVES[:11], None])), "tree lacks 1 of the nodes"),
        (scan(tree=CIRCLE), "ancestors of each other"),
        (scan(tree=TREE.drop(columns="parent")), "needs the columns 'node', 'parent'"),
        (scan(tree=TREE.assign(node=None)), "row 0 (counted from 0) has no node"),
        (scan(tree={"a": "b"}), "must be a table of pandas"),
        (scan(names=["Hives"]), "names must be a mapping"),
        (scan(seed=-1), "seed must be"),
        (scan(conditional="yes"), "conditional must be"),
        (scan(cuts="Root"), "cuts must be a list"),
        (scan(cuts=[]), "cuts must be a list"),
        (scan(model="cox"), "model must be one of"),
        (scan(probability=0.5), "belongs to the bernoulli model"),
        (scan(model="bernoulli", probability=0.5), "conditional scan has no probability"),
        (scan(model="bernoulli", conditional=False), "needs the probability"),
        (scan(model="bernoulli", conditional=False, probability=1.5), "between 0 and 1"),
        (
            scan(
                model="bernoulli",
                conditional=False,
                probability=0.5,
                counts=COUNTS.assign(probability=0.5),
            ),
            "given twice",
        ),
        (scan(model="bernoulli", counts=COUNTS.assign(controls=0)), "one kind only"),
        (scan(cuts=["nowhere"]), "cuts: the tree lacks"),
        (scan(min_cases=0), "min_cases must be"),
        (scan(replicates=0), "replicates must be"),
        (lambda: tree_scan(COUNTS, TREE, replicates=9).bound(), "at least 19"),
        (lambda: tree_scan(COUNTS, TREE, replicates=9).signals(2), "alpha must be"),
        (persons(records=people(20).drop(columns="exposed")), "lacks the columns 'exposed'"),
        (persons(records=people(20).assign(exposed=2)), "exposed: row 0"),
        (persons(records=people(20).assign(person=None)), "row 0 (counted from 0) has no person"),
        (persons(records=people(20).assign(person=1)), "1 people have different values of exposed"),
        (persons(probability=None), "probability of exposure once"),
        (persons(records=people(20).assign(probability=0.5)), "probability of exposure once"),
        (persons(conditional=True), "conditional scan has no probability"),
        (persons(unit="event"), "lacks the columns 'time'"),
        (persons(unit="day"), "unit must be one of"),
        (
            persons(records=people(20).assign(person=1, time=3), unit="event"),
            "1 people have different values of exposed at one time",
        ),
        (persons(records=people(20).iloc[:0]), "no rows"),
        (over_time(times=(1, 20)), "time: row"),
        (over_time(times=(28, 1)), "first and the last time"),
        (over_time(times=28), "first and the last time"),
        (over_time(window=2), "a shortest and a longest length"),
        (over_time(fixed="time"), "fixed must be one of"),
        (over_time(window=(5, 40)), "window must be"),
        (over_time(least_share=2), "least_share must be"),
        (over_time(counts=TIMES.assign(cases=0)), "no cases"),
        (over_time(counts=TIMES.drop(columns="time")), "lacks the columns 'time'"),
        (over_looks(counts=COUNTS), "lacks the column 'look'"),
        (over_looks(counts=COUNTS.assign(look=2)), "without gaps"),
        (over_looks(looks=0), "looks must be"),
        (over_looks(power=0), "power must be positive"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(DataError) as found:
        call()
    assert message in str(found.value)
