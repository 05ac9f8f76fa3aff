"""Tree scans agree with TreeScan, count people once and keep their error."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.special import xlogy
from scipy.stats import gumbel_r
from tests.designs.tree_scan_examples import COUNTS, LEAVES, TIMES, TREE, people

from steropes import DataError
from steropes.designs.surveillance import (
    sequential_tree_scan,
    tree_scan,
    tree_scan_people,
    tree_temporal_scan,
)
from steropes.designs.surveillance.temporal_tree_scans import TimeScan


def by_node(found):
    return found.table.set_index("node")


def test_poisson_scan_is_that_of_treescan():
    found = tree_scan(COUNTS, TREE)
    rows = by_node(found)
    reference = {"Leaf9": 13.136308, "Node3": 11.148394, "Node6": 3.318753, "Leaf10": 2.579169}
    for node, statistic in reference.items():
        assert rows.loc[node, "statistic"] == pytest.approx(statistic, abs=5e-7)
    assert rows.index[:4].tolist() == [*reference]
    # Monte Carlo with 9,999 replicates on both sides.
    assert rows.loc["Node6", "p"] == pytest.approx(0.0801, abs=0.012)
    assert rows.loc["Leaf10", "p"] == pytest.approx(0.1875, abs=0.017)
    assert found.bound() == pytest.approx(3.70303, abs=5e-6)
    assert found.signals()["node"].tolist() == ["Leaf9", "Node3"]
    # A Gumbel distribution with the moments of the replicates is smaller in the body (scipy's; the
    # numbers are those of TreeScan's replicates).
    largest = found._largest
    scale = largest.std() * np.sqrt(6) / np.pi
    gumbel = gumbel_r(largest.mean() - np.euler_gamma * scale, scale)
    p = gumbel.sf([rows.loc[node, "statistic"] for node in ("Node6", "Leaf10", "Leaf9")])
    assert p == pytest.approx([0.0684, 0.1618, 3.9e-7], rel=0.12)
    assert p[0] < rows.loc["Node6", "p"]


@pytest.mark.parametrize(
    ("options", "statistics", "p"),
    [
        ({}, {"Node3": 4.552870, "Leaf9": 4.062552}, {"Node3": 0.031, "Leaf9": 0.076}),
        (
            {"conditional": False, "probability": 0.5},
            {"Node3": 5.095440, "Leaf9": 5.062032},
            {"Node3": 0.008},
        ),
    ],
)
def test_bernoulli_scan_is_that_of_treescan(options, statistics, p):
    found = tree_scan(COUNTS, TREE, model="bernoulli", **options)
    rows = by_node(found)
    for node, statistic in statistics.items():
        assert rows.loc[node, "statistic"] == pytest.approx(statistic, abs=5e-7)
    for node, reference in p.items():  # of 999 replicates
        assert rows.loc[node, "p"] == pytest.approx(reference, abs=4 * np.sqrt(reference / 999))
    if not options:
        assert found.bound() == pytest.approx(4.10311, abs=5e-6)


def test_temporal_scan_is_that_of_treescan():
    found = tree_temporal_scan(
        TIMES, TREE, times=(1, 28), fixed="node and time", least_share=0.2, replicates=1999
    )
    best = found.table.iloc[0]
    assert (best["node"], best["first"], best["last"]) == ("Node3", 4, 5)
    assert best["statistic"] == pytest.approx(4.796446, abs=5e-7)
    assert best["p"] == pytest.approx(0.025, abs=0.02)
    alone = tree_temporal_scan(
        TIMES.assign(node="all"), pd.DataFrame({"node": ["all"], "parent": [None]}),
        times=(1, 28), least_share=0.2,
    )  # fmt: skip
    best = alone.table.iloc[0]
    assert (best["first"], best["last"], best["p"]) == (2, 7, 0.001)
    assert best["statistic"] == pytest.approx(23.972955, abs=5e-7)


@pytest.mark.parametrize("uniform", [True, False])
def test_the_largest_window_of_replicates_is_that_of_all_cuts(uniform):
    rng = np.random.default_rng(0)
    for length, longest, least in ((12, 6, 2), (9, 8, 1), (28, 14, 3)):
        cases = rng.poisson(1.0, (10, length))
        reach = sparse.csr_array(rng.binomial(1, 0.4, (8, 10)))
        start, end = np.triu_indices(length + 1, 1)
        kept = end - start <= longest
        scan = TimeScan(cases, reach, uniform, start[kept], end[kept], least)
        drawn = scan.draw(rng, 20)
        made = np.zeros((20, *cases.shape), np.int64)
        lane, case = np.indices(drawn.shape)
        np.add.at(made, (lane, scan.above[0][case], drawn), 1)
        assert (made.sum(axis=2) == cases.sum(axis=1)).all()
        assert uniform or (made.sum(axis=1) == cases.sum(axis=0)).all()
        assert_array_equal(scan.largest(drawn), scan.best(made)[0].max(axis=1, initial=0.0))


def test_statistics_are_their_definitions():
    rng = np.random.default_rng(3)
    nodes = np.arange(60)
    tree = pd.DataFrame({"node": nodes[1:], "parent": [rng.integers(k) for k in nodes[1:]]})
    counts = pd.DataFrame({"node": nodes, "cases": rng.poisson(4, 60),
                           "controls": rng.poisson(4, 60), "expected": rng.gamma(4, 1, 60),
                           "probability": rng.uniform(0.3, 0.6, 60)})  # fmt: skip
    parent = dict(tree.itertuples(index=False))
    below = np.eye(60, dtype=int)
    for k in nodes:
        above = k
        while above in parent:
            above = parent[above]
            below[above, k] = 1
    c, b, n = (below @ counts[name].to_numpy() for name in ("cases", "controls", "expected"))
    total, all_c, all_m = counts["expected"].sum(), counts["cases"].sum(), 0
    m = c + b
    all_m = counts["cases"].sum() + counts["controls"].sum()
    p = below @ ((counts["cases"] + counts["controls"]) * counts["probability"]).to_numpy()

    def share(c, m, e):
        with np.errstate(all="ignore"):
            value = xlogy(c, c / e) + xlogy(m - c, (m - c) / (m - e))
        return np.where(c > e, value, 0)

    def part(c, n):
        return xlogy(c, c) + xlogy(n - c, n - c) - xlogy(n, n)

    plain = counts.drop(columns="probability")
    expected = {
        ("poisson", False): np.where(c > n, xlogy(c, c / n) - c + n, 0),
        ("poisson", True): share(c, all_c, n * all_c / total),
        ("bernoulli", False): share(c, m, p),
        ("bernoulli", True): np.where(
            c * all_m > m * all_c,
            part(c, m) + part(all_c - c, all_m - m) - part(all_c, all_m), 0,
        ),
    }  # fmt: skip
    for (model, conditional), values in expected.items():
        given = counts if (model, conditional) == ("bernoulli", False) else plain
        found = by_node(
            tree_scan(given, tree, model=model, conditional=conditional, min_cases=1,
                      replicates=9)
        )  # fmt: skip
        np.testing.assert_allclose(found["statistic"].sort_index(), values[c > 0], atol=1e-9)
        assert found["cases"].sort_index().tolist() == c[c > 0].tolist()


def test_a_node_with_several_parents_counts_once():
    tree = pd.DataFrame({"node": ["a", "a", "b", "left", "right"],
                         "parent": ["left", "right", "right", "top", "top"]})  # fmt: skip
    counts = pd.DataFrame({"node": ["a", "b"], "cases": [5, 2], "expected": [3, 3]})
    found = by_node(tree_scan(counts, tree, replicates=9))
    assert found["cases"].to_dict() == {"a": 5, "left": 5, "b": 2, "right": 7, "top": 7}
    closed = pd.DataFrame(
        [("a", "left"), ("a", "right"), ("a", "top"), ("b", "right"), ("b", "top"),
         ("left", "top"), ("right", "top"), ("a", "a")],
        columns=["descendant_concept_id", "ancestor_concept_id"],
    )  # fmt: skip
    again = by_node(tree_scan(counts, closed, replicates=9))
    pd.testing.assert_frame_equal(found.sort_index(), again.sort_index())
    some = by_node(tree_scan(counts, tree, cuts=["top", "a"], replicates=9))
    assert set(some.index) == {"top", "a"}


def test_people_with_one_outcome_are_counts():
    records = people()
    counts = records.groupby("node")["exposed"].agg(cases="sum", size="size").reset_index()
    counts["controls"] = counts.pop("size") - counts["cases"]
    for options in ({"conditional": True}, {"conditional": False, "probability": 0.5}):
        one = tree_scan_people(records, TREE, **options, replicates=999)
        other = tree_scan(counts, TREE, model="bernoulli", **options, replicates=999)
        a, b = by_node(one).sort_index(), by_node(other).sort_index()
        pd.testing.assert_frame_equal(a.drop(columns="p"), b.drop(columns="p"))
        np.testing.assert_allclose(a["p"], b["p"], atol=0.06)


def test_each_person_counts_once():
    records = pd.DataFrame(
        {"person": ["x", "x", "x", "y", "z"], "node": ["Leaf1", "Leaf2", "Leaf9", "Leaf1", "Leaf3"],
         "exposed": [1, 1, 1, 0, 1]}
    )  # fmt: skip
    found = by_node(tree_scan_people(records, TREE, probability=0.5, replicates=9))
    assert found.loc["Node1", ["cases", "events"]].tolist() == [2, 3]
    assert found.loc["Root", ["cases", "events"]].tolist() == [2, 3]
    # All outcomes of a person move together: as many copies change no p-value.
    copies = records.assign(node="Leaf1")
    both = pd.concat([records, copies])
    again = by_node(tree_scan_people(both, TREE, probability=0.5, replicates=9))
    assert again.loc["Root", ["cases", "events"]].tolist() == [2, 3]


def test_the_first_event_of_self_controlled_people_counts():
    records = pd.DataFrame(
        {"person": [1, 1, 2], "node": ["Leaf1", "Leaf2", "Leaf2"], "exposed": [0, 1, 1],
         "time": [30, 3, 5]}
    )  # fmt: skip
    found = by_node(tree_scan_people(records, TREE, unit="event", probability=0.3, replicates=9))
    assert found.loc["Node1", ["cases", "events"]].tolist() == [2, 2]
    assert found.loc["Node1", "expected"] == pytest.approx(0.6)
    assert "Leaf1" not in found.index  # without a case


def test_one_look_is_a_scan_and_later_looks_change_nothing():
    counts = COUNTS.assign(look=1)
    later = pd.concat([counts, COUNTS.assign(look=2)])
    for model, options in (
        ("poisson", {}),
        ("bernoulli", {"conditional": False, "probability": 0.5}),
    ):
        one = sequential_tree_scan(counts, TREE, looks=1, model=model, **options, replicates=1999)
        scan = tree_scan(COUNTS, TREE, model=model, **options, replicates=1999)
        assert one.bounds["bound"].iloc[0] == pytest.approx(scan.bound(), abs=0.25)
        first = by_node(one)["statistic"].sort_index()
        pd.testing.assert_series_equal(first, by_node(scan)["statistic"].sort_index())
        three = {"looks": 3, "model": model, **options, "replicates": 999}
        a = sequential_tree_scan(counts, TREE, **three)
        b = sequential_tree_scan(later, TREE, **three)
        assert a.bounds.loc[1, "bound"] == b.bounds.loc[1, "bound"]
        double = COUNTS.assign(**{c: 2 * COUNTS[c] for c in ("cases", "expected", "controls")})
        both = by_node(tree_scan(double, TREE, model=model, **options, replicates=9))
        second = b.table[b.table["look"] == 2].set_index("node")["statistic"]
        pd.testing.assert_series_equal(second.sort_index(), both["statistic"].sort_index())


@pytest.mark.slow
def test_sequential_scans_keep_their_error():
    rng = np.random.default_rng(8)
    means = COUNTS["expected"].to_numpy() / 100
    signals, times = 0, 150
    for seed in range(times):
        cases = rng.poisson(means, (3, 12))
        counts = pd.DataFrame(
            {"look": np.repeat([1, 2, 3], 12), "node": LEAVES * 3, "cases": cases.ravel(),
             "expected": np.tile(means, 3)}
        )  # fmt: skip
        found = sequential_tree_scan(
            counts, TREE, looks=3, conditional=False, alpha=0.2, replicates=199, seed=seed
        )
        signals += int(found.bounds["signals"].any())
    assert signals / times == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / times))


def test_results_are_drawn_and_printed():
    found = tree_scan(COUNTS, TREE, names={"Leaf9": "Hives"}, replicates=99)
    assert found.table["name"].iloc[0] == "Hives"
    assert "smallest p=0.01" in repr(found)
    assert "Log-likelihood ratio" in found.table.paper_table().columns
    axes = found.plot(most=5)
    assert next(label.get_text() for label in axes.get_yticklabels()) == "Hives"
    assert len(axes.patches) == 5


def test_looks_are_drawn():
    both = pd.concat([COUNTS.assign(look=1), COUNTS.assign(look=2)])
    found = sequential_tree_scan(both, TREE, looks=4, replicates=99)
    axes = found.plot(look=1, most=3)
    assert next(label.get_text() for label in axes.get_yticklabels()) == "Leaf9"
    with pytest.raises(DataError, match="look must be between 1 and 2"):
        found.plot(look=3)


def test_nodes_may_be_numbers_or_categories():
    numbers = {name: k for k, name in enumerate(sorted([*TREE["node"], "Root"]))}
    expected = by_node(tree_scan(COUNTS, TREE, replicates=9)).rename(index=numbers)
    # A missing parent makes floats of the others.
    tree = TREE.apply(lambda column: column.map(numbers))
    tree = pd.concat([tree, pd.DataFrame({"node": [numbers["Root"]], "parent": [np.nan]})])
    found = tree_scan(COUNTS.assign(node=COUNTS["node"].map(numbers)), tree, replicates=9)
    assert found.table["node"].dtype == np.int64
    pd.testing.assert_frame_equal(by_node(found), expected, check_names=False)
    given = COUNTS.astype({"node": "category"}), TREE.astype("category")
    again = by_node(tree_scan(*given, replicates=9)).rename(index=numbers)
    pd.testing.assert_frame_equal(again, expected, check_names=False)


def test_the_order_of_rows_and_the_library_of_tables_do_not_matter():
    def shuffled(table):
        return pl.from_pandas(table.sample(frac=1, random_state=1))

    tree, records = shuffled(TREE), people(60)
    events = pd.concat([records, records.assign(node=records["node"].iloc[::-1].to_numpy())])
    events = events.assign(time=7, person=events["person"] // 2).drop_duplicates(["person", "node"])
    events["exposed"] = (events["person"] % 3 > 0).astype(int)
    options = {"replicates": 49}
    for first, second in (
        (tree_scan(COUNTS, TREE, **options), tree_scan(shuffled(COUNTS), tree, **options)),
        (
            tree_scan_people(records, TREE, probability=0.4, **options),
            tree_scan_people(shuffled(records), tree, probability=0.4, **options),
        ),
        (
            tree_scan_people(events, TREE, probability=0.4, unit="event", **options),
            tree_scan_people(shuffled(events), tree, probability=0.4, unit="event", **options),
        ),
        (
            tree_temporal_scan(TIMES, TREE, times=(1, 28), **options),
            tree_temporal_scan(shuffled(TIMES), tree, times=(1, 28), **options),
        ),
        (
            sequential_tree_scan(COUNTS.assign(look=1), TREE, looks=2, **options),
            sequential_tree_scan(shuffled(COUNTS.assign(look=1)), tree, looks=2, **options),
        ),
    ):
        pd.testing.assert_frame_equal(pd.DataFrame(first.table), pd.DataFrame(second.table))


def test_what_happens_at_one_time_counts_once():
    records = pd.DataFrame(
        {"person": [1, 1, 2], "node": ["Leaf1", "Leaf2", "Leaf2"], "exposed": 1, "time": [3, 3, 5]}
    )
    found = by_node(tree_scan_people(records, TREE, unit="event", probability=0.3, replicates=9))
    assert found.loc["Node1", ["cases", "events"]].tolist() == [2, 2]
    assert found.loc["Root", "cases"] == 2


def test_the_input_is_unchanged():
    counts, tree, times = COUNTS.copy(), TREE.copy(), TIMES.copy()
    tree_scan(counts, tree, replicates=9)
    tree_temporal_scan(times, tree, times=(1, 28), replicates=9)
    for given, before in ((counts, COUNTS), (tree, TREE), (times, TIMES)):
        pd.testing.assert_frame_equal(given, before)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["poisson", "conditional", "bernoulli", "temporal"])
def test_false_signals_are_as_rare_as_planned(model):
    rng = np.random.default_rng(11)
    means = COUNTS["expected"].to_numpy() / 50
    times, alpha, found = 2000, 0.05, 0
    for seed in range(times):
        cases, controls = rng.poisson(means), rng.poisson(means)
        counts = pd.DataFrame(
            {"node": LEAVES, "cases": cases, "controls": controls, "expected": means}
        )
        if model == "temporal":
            day = rng.integers(1, 15, cases.sum())
            rows = pd.DataFrame({"node": np.repeat(LEAVES, cases), "time": day, "cases": 1})
            scan = tree_temporal_scan(rows, TREE, times=(1, 14), replicates=199, seed=seed)
        elif model == "bernoulli":
            scan = tree_scan(counts, TREE, model="bernoulli", conditional=False, probability=0.5,
                             replicates=199, seed=seed)  # fmt: skip
        else:
            scan = tree_scan(
                counts, TREE, conditional=model == "conditional", replicates=199, seed=seed
            )
        found += bool(len(scan.signals(alpha)))
    # Ties of discrete statistics make tests a little conservative.
    error = np.sqrt(alpha * (1 - alpha) / times)
    assert alpha - 6 * error < found / times < alpha + 3 * error


@pytest.mark.slow
def test_the_propensity_score_removes_confounding():
    rng = np.random.default_rng(5)
    size, times = 20_000, 200
    found = {"score": 0, "share": 0}
    for seed in range(times):
        x = rng.random(size) < 0.3
        score = np.where(x, 0.7, 0.3)
        exposed = rng.random(size) < score
        sick = rng.random(size) < np.where(x, 0.06, 0.02)  # whoever they were exposed to
        rows = pd.DataFrame(
            {"person": np.arange(size), "node": rng.choice(LEAVES, size),
             "exposed": exposed.astype(int), "score": score}
        )[sick]  # fmt: skip
        rows = pd.concat([rows, rows.assign(node=rng.choice(LEAVES, len(rows)))])
        options = {"replicates": 199, "seed": seed}
        adjusted = tree_scan_people(rows.rename(columns={"score": "probability"}), TREE, **options)
        plain = tree_scan_people(rows, TREE, probability=float(exposed.mean()), **options)
        found["score"] += bool(len(adjusted.signals()))
        found["share"] += bool(len(plain.signals()))
    assert found["share"] / times > 0.9
    assert found["score"] / times == pytest.approx(0.05, abs=3.5 * np.sqrt(0.05 * 0.95 / times))
