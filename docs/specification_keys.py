"""The page of all keys of specifications, written from the classes that read them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Number
from steropes.federated import FederatedPlan
from steropes.studies import StudySettings
from steropes.studies.comparative import StudyAnalysis
from steropes.studies.sccs.specification.sccs_specification import CaseSeriesSpecification
from steropes.studies.settings.setting_fields import (
    SettingField,
    first_paragraph,
    setting_fields,
)
from steropes.studies.specifications.grid_specification import GridSpec
from steropes.studies.specifications.grid_specification_file import PRESET

HERE = Path(__file__).parent
PAGE = HERE / "specification_keys.md"
R_ARGUMENTS: dict[str, dict[str, str]] = tomllib.loads(
    (HERE / "r_arguments.toml").read_text("utf-8")
)

# The classes with which specifications begin, and the commands that read them.
ROOTS: dict[type, str] = {
    GridSpec: "A comparative grid: `steropes grid`",
    CaseSeriesSpecification: "A grid of case series: `steropes sccs-grid`",
    StudySettings: "One question: `steropes study`",
    FederatedPlan: "A federated plan: `steropes federate init`",
}
INTRODUCTION = """\
# Studies: every key of every specification

Specifications are TOML or JSON files. Each section below lists the keys of one table. A table that
is a value of another one is linked, and where the first key of a table is enough, its value alone
may stand for the table (`outcomes = [3, 4]` instead of `outcomes = [{ id = 3 }, { id = 4 }]`).
`false` means none. The last column names the argument of R's CohortMethod or
SelfControlledCaseSeries that corresponds to the key, if there is one; defaults differ in places
(see [CohortMethod](coming_from_cohort_method.md) and
[SelfControlledCaseSeries](coming_from_sccs.md)). `steropes grid --schema` and `steropes sccs-grid
--schema` print the same as JSON Schema, by which editors complete and check files.
"""


def page() -> str:
    """Write the page in Markdown."""
    parts, done = [INTRODUCTION], set[type]()
    for root, title in ROOTS.items():
        parts.append(f"## {title}\n")
        for cls in tables(root):
            if cls not in done:
                done.add(cls)
                parts.append(section(cls))
    return "\n".join(parts)


def tables(root: type) -> Iterator[type]:
    """Yield a class and the classes of its values, each before the classes within it."""
    yield root
    for field in setting_fields(root).values():
        for cls in classes(field.hint):
            yield from tables(cls)


def classes(hint: Any) -> Iterator[type]:
    """Yield the classes of settings that a type contains."""
    if inspect.isclass(hint) and issubclass(hint, Settings):
        yield hint
    for part in get_args(hint):
        yield from classes(part)


def section(cls: type) -> str:
    """Write the table of the keys of a class."""
    r_names = R_ARGUMENTS.get(cls.__name__, {})
    lines = [
        f"({anchor(cls)})=",
        f"### {cls.__name__}",
        "",
        first_paragraph(cls),
        "",
        "| key | type | default | meaning | in R |",
        "|---|---|---|---|---|",
    ]
    for name, field in setting_fields(cls).items():
        r_name = f"`{r_names[name]}`" if name in r_names else ""
        cells = (f"`{name}`", type_words(field.hint), default(field), field.description, r_name)
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    if cls is StudyAnalysis:
        lines.append(f'| `preset` | `"cohort_method"` |  | {PRESET} | |')
    return "\n".join([*lines, ""])


def anchor(cls: type) -> str:
    """Return the label of the section of a class."""
    return f"keys-{cls.__name__.lower()}"


def type_words(hint: Any) -> str:
    """Describe a type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits = next((m for m in arguments[1:] if isinstance(m, Number)), None)
        return f"{limits.words}{limits.limits}" if limits else type_words(arguments[0])
    if NoneType in arguments or (origin is not None and origin not in (tuple, dict, Literal)):
        return " or ".join(type_words(a) for a in arguments if a is not NoneType)
    if origin is tuple and ... in arguments:
        return f"list: {type_words(arguments[0])}"
    if origin is tuple:
        return f"list of {len(arguments)}: {type_words(arguments[0])}"
    if origin is dict:
        return f"table by id: {type_words(arguments[1])}"
    if origin is Literal:
        return ", ".join(f"`{json.dumps(a)}`" for a in arguments)
    if inspect.isclass(hint) and issubclass(hint, Settings):
        return f"[{hint.__name__}](#{anchor(hint)})"
    words = {int: "whole number", float: "number", str: "text", bool: "`true` or `false`"}
    return words.get(hint, "date" if hint is dt.date else "")


def default(field: SettingField) -> str:
    """Format the default of a setting as in a file."""
    value = field.default
    if value is dataclasses.MISSING:
        return "required"
    if value is None:
        return ""
    if dataclasses.is_dataclass(value):
        return "its defaults"
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def write_page(app: Any = None) -> None:
    """Write the page before the site is built, unless it is there already with the same text."""
    text = page()
    if not PAGE.exists() or PAGE.read_text("utf-8") != text:
        PAGE.write_text(text, encoding="utf-8")
