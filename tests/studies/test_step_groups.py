"""Steps of a grid, which are stored one by one and never repeated."""

import pytest

from steropes.studies.execution.step_groups import StepGroup, run_steps
from steropes.studies.execution.store import ResultStore

TABLES, KEYS = {"found": {"step": "VARCHAR"}}, {"found": ("step",)}


def open_groups(store, ran, stop=None):
    """Two groups of steps without those that are stored; ``stop`` interrupts the run."""

    def group(title, *steps):
        left = tuple(s for s in steps if s not in store.done)

        def answer(parallel):
            assert parallel == 1
            for step in left:
                if step == stop:
                    raise KeyboardInterrupt
                ran.append(step)
                yield step, {"found": [{"step": step}]}

        return StepGroup(title, left, answer)

    return [group("first", "a", "b"), group("second", "c", "d")]


def test_an_interrupted_run_repeats_no_step_and_announces_open_groups_only(tmp_path):
    ran, lines = [], []
    for stop in ("d", None):
        with ResultStore(tmp_path / "results.duckdb", "x", TABLES, KEYS) as store:
            groups = open_groups(store, ran, stop)
            if stop:
                with pytest.raises(KeyboardInterrupt):
                    run_steps(groups, store, lines.append)
                assert store.table("found")["step"].tolist() == ["a", "b", "c"]
            else:
                run_steps(groups, store, lines.append)
                assert store.table("found")["step"].tolist() == ["a", "b", "c", "d"]
    assert ran == ["a", "b", "c", "d"]
    assert lines == ["first (1 of 4)", "second (3 of 4)", "second (1 of 1)"]
