"""Validation of the docstrings of all public names with numpydoc.

`[tool.numpydoc_validation]` in pyproject.toml lists the checks. ``python -m
tests.docs.public_docstrings`` prints the faults and fails if there are any.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import tomllib
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from numpydoc.docscrape import FunctionDoc
from numpydoc.validate import ERROR_MSGS, validate

from steropes.models.fitting.accessor_base_class import accessor, function_of_model

__all__ = ["MODULES", "docstring", "faults", "public_objects"]

ROOT = Path(__file__).parents[2]
# Modules whose ``__all__`` is the public interface.
MODULES = (
    "steropes",
    "steropes.datasets",
    "steropes.designs",
    "steropes.designs.bias_analysis",
    "steropes.designs.case_only",
    "steropes.designs.case_series",
    "steropes.designs.controls",
    "steropes.designs.covariates",
    "steropes.designs.effects",
    "steropes.designs.evidence",
    "steropes.designs.surveillance",
    "steropes.designs.propensity",
    "steropes.designs.target_trials",
    "steropes.designs.time_varying",
    "steropes.federated",
    "steropes.models",
    "steropes.plots",
    "steropes.studies",
    "steropes.studies.case_only",
    "steropes.studies.cohorts",
    "steropes.studies.comparative",
    "steropes.studies.covariates",
    "steropes.studies.target_trials",
    "steropes.studies.database",
    "steropes.studies.diagnostics",
    "steropes.studies.federation",
    "steropes.studies.grids",
    "steropes.studies.monitoring",
    "steropes.studies.sccs",
    "steropes.studies.settings",
    "steropes.studies.specifications",
    "steropes.studies.strategus_plans",
)


def public_objects(modules: tuple[str, ...] = MODULES) -> dict[str, Any]:
    """Return the public classes, functions, methods and properties by their dotted names.

    A method that several classes inherit is listed once, by the first of them. Names of studies
    are those of ``steropes.studies``, though ``steropes`` has some of them too.
    """
    found: dict[int, tuple[str, Any]] = {}
    for module in modules:
        for name in import_module(module).__all__:
            item = getattr(import_module(module), name)
            home = str(getattr(item, "__module__", ""))
            if module == "steropes" and home.startswith("steropes.studies"):
                continue
            if callable(item):
                found.setdefault(id(item), (f"{module}.{name}", item))
            if inspect.isclass(item):
                for member, function in _members(item):
                    found.setdefault(id(function), (f"{module}.{name}.{member}", function))
    return dict(found.values())


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class that this package defines."""
    for name in dir(cls):
        item: Any = inspect.getattr_static(cls, name)
        if isinstance(item, classmethod | staticmethod):
            item = item.__func__
        elif isinstance(item, property):
            item = item.fget
        elif isinstance(item, function_of_model):
            item = item.function
        elif isinstance(item, accessor):
            continue
        elif isinstance(item, cached_property):
            item = item.func
        item = inspect.unwrap(item) if callable(item) else item
        ours = str(getattr(item, "__module__", "")).startswith("steropes")
        if inspect.isroutine(item) and ours and not name.startswith("_"):
            yield name, item


def docstring(item: Any) -> FunctionDoc:
    """Parse a docstring."""
    return FunctionDoc(None, doc=inspect.getdoc(item) or "")


def faults(name: str, item: Any, checks: set[str]) -> Iterator[str]:
    """Yield the faults of a docstring.

    Two rules are ours. The fields of a data class are parameters or attributes, and methods need
    no examples, as many are shown with their class.
    """
    fields = dataclasses.is_dataclass(item) or issubclass(_class(item), tuple)
    member = not inspect.isclass(item) and "." in item.__qualname__
    for code, message in validate(name)["errors"]:
        ours = (fields and code in ("PR01", "PR02", "PR03")) or (member and code == "EX01")
        if code in checks and not ours:
            yield f"{code} {message}"
    parsed = docstring(item)
    entries = [*parsed["Parameters"], *parsed["Attributes"]]
    if fields:
        described = {part.strip() for entry in entries for part in entry.name.split(",")}
        public = {field for field in _fields(item) if not field.startswith("_")}
        if public - described:
            yield f"PR01 Fields {sorted(public - described)} not documented"
    for entry in parsed["Attributes"]:
        if not entry.type or not entry.desc:
            yield f"PR07 Attribute {entry.name} has no type or no description"


def _class(item: Any) -> type:
    return item if inspect.isclass(item) else object


def _fields(item: Any) -> list[str]:
    """Return the names of the fields that the constructor of a data class or named tuple sets."""
    if hasattr(item, "_fields"):
        return list(item._fields)
    return [field.name for field in dataclasses.fields(item) if field.init]


def selected_checks() -> set[str]:
    """Read the checks from pyproject.toml, where ``"all"`` excludes those that follow."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    listed = set(settings["tool"]["numpydoc_validation"]["checks"])
    return set(ERROR_MSGS) - listed if "all" in listed else listed


def main() -> int:
    """Print the faults of all public docstrings; return their number."""
    checks, number = selected_checks(), 0
    for name, item in public_objects().items():
        for fault in faults(name, item, checks):
            number += 1
            print(f"{name}: {fault}")
    return number


if __name__ == "__main__":
    sys.exit(min(main(), 1))
