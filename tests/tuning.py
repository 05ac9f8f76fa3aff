"""Other tuning parameters than the default ones, for a test."""

from dataclasses import replace
from typing import Any

import pytest

from steropes.select import variance_path_constants as path_policies
from steropes.solve import solver_constants as solver_policies

__all__ = ["tune", "tune_path", "tune_solver"]


def tune(monkeypatch: pytest.MonkeyPatch, module: Any, policy: str, **values: Any) -> None:
    """Change some fields of a policy as a module sees it."""
    monkeypatch.setattr(module, policy, replace(getattr(module, policy), **values))


def tune_path(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    """Change some fields of the default `PathPolicy`."""
    changed = replace(path_policies.DEFAULT, **values)
    monkeypatch.setattr(path_policies, "DEFAULT", changed)


def tune_solver(monkeypatch: pytest.MonkeyPatch, part: str, **values: Any) -> None:
    """Change some fields of a part of the default `SolverPolicy`, such as "hessian"."""
    default = solver_policies.DEFAULT
    changed = replace(default, **{part: replace(getattr(default, part), **values)})
    monkeypatch.setattr(solver_policies, "DEFAULT", changed)
