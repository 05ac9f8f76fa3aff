"""Steps of a grid, which are stored one by one and never repeated."""

import pytest

from steropes.studies.execution.result_store import ResultStore
from steropes.studies.execution.resumable_steps import StepGroup, run_steps

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


def test_a_group_is_prepared_while_processes_compute_the_group_before(tmp_path):
    def events(jobs):
        seen = []

        def group(title, fails=False):
            def answer(parallel):
                assert parallel == jobs
                for step in ("shared", "one", "two"):
                    seen.append(f"{title} {step}")
                    yield f"{title} {step}", {}

            def prepare():
                seen.append(f"prepare {title}")
                if fails:
                    raise ValueError

            names = tuple(f"{title} {step}" for step in ("shared", "one", "two"))
            return StepGroup(title, names, answer, prepare)

        nothing = StepGroup("nothing", (), lambda _: iter(()), lambda: seen.append("nothing"))
        with ResultStore(tmp_path / f"{jobs}.duckdb", "x", TABLES, KEYS) as store:
            run_steps([group("a"), nothing, group("b", fails=True)], store, str, jobs)
        return seen

    alone = [f"{title} {step}" for title in "ab" for step in ("shared", "one", "two")]
    assert events(1) == alone
    assert events(2) == [*alone[:2], "prepare b", *alone[2:]]  # its error is left to its answer


def test_a_store_in_memory_makes_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with ResultStore(":memory:", "x", TABLES, KEYS) as store:
            assert store.done == set()
    assert not [*tmp_path.iterdir()]
