"""Rendering of pages and pictures by Jinja templates, which escape every text."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from steropes.studies._optional_packages import need
from steropes.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render"]


def render(template: str, **values: object) -> str:
    """Render a template of the folder ``templates``.

    Parameters
    ----------
    template : str
        The name of its file.
    **values : object
        Texts, tables, figures and other released numbers. A name that the template uses and that
        is missing here is an error.
    """
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    """Return the environment of all templates."""
    jinja2 = need("jinja2")
    environment: Environment = jinja2.Environment(
        loader=jinja2.PackageLoader("steropes.studies.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["version"] = __version__
    return environment
