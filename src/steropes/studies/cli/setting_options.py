"""Options of commands from declared settings: their types, limits, defaults and help texts."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from types import GenericAlias, NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from steropes.designs.settings.validated_types import LARGEST, Number
from steropes.studies.settings.setting_fields import SettingField

__all__ = ["Command", "Converted", "options_of"]

# A type of values on the command line, their conversion to the setting, and a help text.
Converted = tuple[Any, Callable[[Any], Any], str | None]
Command = Callable[..., None]


def options_of(
    settings: Mapping[str, SettingField],
    names: Mapping[str, str] | None = None,
    converted: Mapping[str, Converted] | None = None,
    optional: bool = False,
) -> Callable[[Command], Command]:
    """Replace the parameter ``settings`` of a command by an option for each setting.

    The command receives a dict of the settings that are not None. Its other parameters are declared
    for Typer as usual.

    Parameters
    ----------
    names : mapping of str to str, optional
        Names of options that differ from the names of their settings.
    converted : mapping of str to (type, callable, str or None), optional
        Settings that have values of another type on the command line, with the conversion, and a
        help text if the description does not apply.
    optional : bool, default False
        Whether options that are not given are missing in the dict, because a file may state them.
    """
    names, converted = names or {}, converted or {}

    def decorate(command: Command) -> Command:
        def run(**given: object) -> None:
            found = {name: given.pop(names.get(name, name)) for name in settings}
            values = {name: value for name, value in found.items() if value is not None}
            for name in values.keys() & converted.keys():
                values[name] = converted[name][1](values[name])
            command(settings=values, **given)

        made = []
        for name, field in settings.items():
            hint, _, text = converted.get(name, (field.hint, None, None))
            made.append(_option(field, names.get(name, name), hint, text, optional))
        parameters: list[inspect.Parameter] = []
        for p in inspect.signature(command, eval_str=True).parameters.values():
            parameters += made if p.name == "settings" else [p.replace(kind=p.KEYWORD_ONLY)]
        functools.update_wrapper(run, command)
        vars(run)["__signature__"] = inspect.Signature(parameters)
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _option(
    field: SettingField, name: str, hint: object, text: str | None, optional: bool
) -> inspect.Parameter:
    """Create the parameter of a command that stands for a setting."""
    kind, lowest = _kind(hint)
    default = field.default
    if default is MISSING:
        default = inspect.Parameter.empty
    elif hint is not field.hint or default in ((), None):
        default = False if kind is bool else None
    text = text or field.description.replace("`", "")
    if get_origin(kind) is list:
        text = f"{text} Repeatable."
    if optional:  # click shows a text instead of a default in parentheses
        if default not in (None, False, inspect.Parameter.empty):
            text = f"{text} Default: {'yes' if default is True else default}."
        default = None
    values = kind if default is not None else kind | None
    annotation = operator.getitem(
        Annotated, (values, typer.Option(help=text, min=lowest, show_default=not optional))
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _kind(hint: object) -> tuple[Any, float | None]:
    """Return the type of an option for the type of a setting, and its smallest value."""
    origin, arguments = get_origin(hint), get_args(hint)
    if NoneType in arguments:
        return _kind(next(a for a in arguments if a is not NoneType))
    if origin is Annotated:
        kind, lowest = _kind(arguments[0])
        limits = [m.low for m in arguments[1:] if isinstance(m, Number)]
        return kind, next((low for low in limits if 0 <= low < LARGEST), lowest)
    if origin is tuple:
        kinds = [_kind(a) for a in arguments if a is not ...]
        made = list if ... in arguments else tuple
        return GenericAlias(made, tuple(kind for kind, _ in kinds)), kinds[0][1]
    if origin is Literal and not isinstance(arguments[0], str):
        return type(arguments[0]), None
    return hint, None
