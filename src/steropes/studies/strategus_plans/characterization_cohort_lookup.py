"""Lookup of the cohorts that a characterization names, and settings that come in lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from steropes.errors import DataError
from steropes.studies.strategus_plans.r_json_values import JsonPath, json_path
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts

__all__ = ["known_cohorts", "listed_settings"]


def listed_settings(
    values: object, name: str, path: JsonPath
) -> Iterable[tuple[int, object, JsonPath]]:
    """Yield settings with their number from 1 and their path; one object is a list of one."""
    listed = [values] if isinstance(values, Mapping) else values or []
    if not isinstance(listed, list):
        raise DataError(f"{json_path((*path, name))} must be a list")
    for i, value in enumerate(listed):
        yield i + 1, value, (*path, name, i)


def known_cohorts(ids: Iterable[int], cohorts: SharedCohorts) -> tuple[tuple[int, ...], list[str]]:
    """Return the cohorts that can be made, and why the others cannot.

    Raises
    ------
    DataError
        None can be made.
    """
    whys = {i: why for i in ids if (why := cohorts.fault(i))}
    good = tuple(dict.fromkeys(i for i in ids if i not in whys))
    if not good:
        raise DataError(next(iter(whys.values()), "it has no cohorts"))
    said = [f"{len(whys):,} cohorts are left out ({next(iter(whys.values()))})"] if whys else []
    return good, said
