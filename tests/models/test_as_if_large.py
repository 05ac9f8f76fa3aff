"""Small problems that go the ways of large ones (`benchmarks.random_problems.as_if_large`)."""

from __future__ import annotations

from importlib import import_module

import pytest
from benchmarks.random_problems.as_if_large import GROUPS, as_if_large, drawn
from benchmarks.random_problems.check import judge
from benchmarks.random_problems.draw import draw

from steropes.solve.subproblem.preconditioners.tiled_cholesky import Cholesky


def _thresholds():
    names = {
        (f"steropes.{m}", name) for _, ms in GROUPS for m, values in ms.items() for name in values
    }
    return {at: _value(*at) for at in names}


def _value(module, name):
    """The value of a constant, or of a field of a module's default policy."""
    home = import_module(module)
    value = home.DEFAULT if module.endswith(("_policy", "_constants", "cpu_chunk_sizes")) else home
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.slow
def test_a_problem_is_right_by_the_ways_of_large_ones(monkeypatch):
    tiles = []
    start = Cholesky.__init__

    def counted(self, A, pool):
        start(self, A, pool)
        tiles.append(len(self.tiles))

    monkeypatch.setattr(Cholesky, "__init__", counted)
    before = _thresholds()
    *_, outcome = judge(300163, large=True)
    assert outcome.status == "ok", outcome.findings
    assert max(tiles) >= 3
    assert _thresholds() == before


def test_thresholds_are_as_they_were_after_an_error():
    before = _thresholds()
    with pytest.raises(ZeroDivisionError), as_if_large(0):
        _ = 1 / (_thresholds() == before)
    assert _thresholds() == before


def test_every_threshold_is_drawn_and_not_always():
    sets = [drawn(seed).keys() for seed in range(40)]
    known = set(_thresholds())
    assert set().union(*sets) == known
    assert not set.intersection(*map(set, sets))


def test_wide_problems_have_twenty_to_sixty_columns():
    assert all(20 <= draw(seed, wide=True).X.shape[1] <= 60 for seed in range(50))
