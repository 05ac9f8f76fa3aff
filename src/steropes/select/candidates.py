"""Priors that differ in more than the variance of the path: each has its own, on the same folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError
from ..priors import Prior
from .search import Selection, best_of

__all__ = ["check_compared", "choose_among"]

# A prior to compare, and what the table says of it.
Candidate = tuple[Prior | None, dict[str, Any]]


def choose_among(chooser: Any, problem: Any, choose: Callable[[Any, bool], Selection]) -> Selection:
    """Choose the prior of a problem, and its variance.

    Parameters
    ----------
    chooser : CrossValidation or InformationCriterion
        Its ``search`` and ``compare``.
    problem : steropes.fit.Problem
    choose : callable
        Takes a problem, and whether its prior is the only one, and finds the best variance.
    """
    prior = problem.prior
    if prior is not None and prior.adaptive and isinstance(chooser.search, str):
        raise DataError(
            f"A {type(prior).__name__} prior has no path of variances to walk: list those to try "
            f"in {type(chooser).__name__}(search=[…])."
        )
    found: list[tuple[Selection, dict[str, Any]]] = []
    candidates = _candidates(prior, chooser.compare)
    for one, said in candidates:
        path = None if one is None else one.for_comparison(said)
        selection = choose(replace(problem, prior=path), len(candidates) == 1)
        if one is not None:  # of the class that the user knows
            selection = replace(selection, prior=replace(one, **selection.prior.get_params()))
        found.append((selection, said))
    if len(found) == 1:
        return found[0][0]
    tables = []
    for selection, said in found:
        table = selection.results.copy()
        for at, (name, value) in enumerate(said.items()):
            table.insert(at, f"prior__{name}" if name in table else name, value)
        tables.append(table)
    best = best_of(np.array([selection.score for selection, _ in found]))
    columns = max(tables, key=lambda table: table.shape[1]).columns  # some may have slopes
    return replace(found[best][0], results=pd.concat(tables, ignore_index=True)[columns])


def _candidates(
    prior: Prior | None, compare: Mapping[str, Sequence[Any]] | None
) -> list[Candidate]:
    """All combinations of what is compared, and of what the prior itself leaves open."""
    if prior is None:
        return [(None, {})]
    names = [] if compare is None else list(compare)
    known = prior.get_params()
    for name in names:
        if name not in known:
            raise DataError(
                f"compare names {name!r}, which {type(prior).__name__} has not; it has "
                f"{', '.join(map(repr, known)) or 'none'}."
            )
    _refuse_moved(prior, compare)
    out: list[Candidate] = []
    for places in product(*([range(len(compare[n])) for n in names] if compare else [])):
        changed: dict[str, Any] = {}
        said: dict[str, Any] = {}
        for name, place in zip(names, places, strict=True):
            assert compare is not None
            changed[name] = value = compare[name][place]
            said[name] = value if isinstance(value, Real | str) else place
        one = replace(prior, **changed)
        for each in one.candidates():
            setting = str(one.multi_valued)
            own = {} if each is one else {setting: getattr(each, setting)}
            out.append((each, {**said, **own}))
    return out


def _refuse_moved(prior: Prior, compare: Mapping[str, Sequence[Any]] | None) -> None:
    """Refuse to compare what the path moves itself."""
    for name, values in (compare or {}).items():
        unit = [replace(prior, **{name: value}).with_variance(1.0).get_params() for value in values]
        for before, after in pairwise(unit):
            if all(_same(before[key], after[key]) for key in before):
                raise DataError(
                    f"compare has values of {name!r} that the path of {type(prior).__name__} "
                    "moves itself; list them in search."
                )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping) or isinstance(b, Mapping):
        return bool(a == b)
    return np.shape(a) == np.shape(b) and bool(np.all(np.asarray(a) == np.asarray(b)))


def check_compared(compare: Any) -> None:
    """Refuse what is no mapping of names to sequences."""
    if compare is None:
        return
    if not isinstance(compare, Mapping) or not compare:
        raise DataError(
            "compare must map settings of the prior to the values to choose from, such as "
            f"{{'normal_variance': [0.1, 1.0]}}, not {compare!r}."
        )
    for name, values in compare.items():
        if not isinstance(values, list | tuple | np.ndarray) or len(values) == 0:
            raise DataError(f"compare has no values to choose from for {name!r}.")
