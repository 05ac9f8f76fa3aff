"""Other tuning parameters than the default ones, for a test."""

from dataclasses import replace
from typing import Any

import pytest

from steropes.select import policy as path_policies

__all__ = ["tune_path"]


def tune_path(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    """Change some fields of the default `PathPolicy`."""
    changed = replace(path_policies.DEFAULT, **values)
    monkeypatch.setattr(path_policies, "DEFAULT", changed)
