"""Names, types, defaults and descriptions of settings, as their classes declare them."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from typing import Any, get_type_hints

__all__ = ["SettingField", "field_descriptions", "first_paragraph", "setting_fields"]

ITEM = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*)(?: : .*)?")
SECTION = re.compile(
    r"^(?:Attributes|Parameters)\n-+\n(.*?)(?=\n\n\w+\n-+\n|\Z)", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class SettingField:
    """One setting.

    Attributes
    ----------
    hint : type
        With the limits of its values.
    default : object
        ``dataclasses.MISSING`` if the setting is required.
    description : str
        From the docstring of the class or function.
    """

    name: str
    hint: Any
    default: Any
    description: str


def setting_fields(declared: type | Callable[..., object]) -> dict[str, SettingField]:
    """List the settings of a class, or the parameters of a function, by name."""
    hints = get_type_hints(declared, include_extras=True)
    described = field_descriptions(declared)
    defaults: dict[str, Any] = {}
    if dataclasses.is_dataclass(declared):
        for f in dataclasses.fields(declared):
            made = f.default_factory
            defaults[f.name] = f.default if made is MISSING else made()
    else:
        for p in inspect.signature(declared).parameters.values():
            if p.kind is not p.VAR_KEYWORD:
                defaults[p.name] = MISSING if p.default is p.empty else p.default
    return {
        name: SettingField(name, hints[name], default, described.get(name, ""))
        for name, default in defaults.items()
    }


def field_descriptions(documented: object) -> dict[str, str]:
    """Read the descriptions of fields or parameters from a docstring in numpydoc's format.

    Names that are described together share the description. Inherited fields have the description
    of the class that declares them.
    """
    found: dict[str, str] = {}
    parts = reversed(inspect.getmro(documented)) if inspect.isclass(documented) else [documented]
    for part in parts:
        section = SECTION.search(inspect.cleandoc(part.__doc__ or ""))
        names: list[str] = []
        for line in section[1].splitlines() if section else ():
            if line.startswith("    "):
                found |= {n: f"{found[n]} {line.strip()}".strip() for n in names}
            elif head := ITEM.fullmatch(line):
                names = [n for n in head[1].split(", ") if n not in found]
                found |= dict.fromkeys(names, "")
            elif line:
                names = []
    return found


def first_paragraph(documented: object) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join(inspect.cleandoc(documented.__doc__ or "").partition("\n\n")[0].split())
