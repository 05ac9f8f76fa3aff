"""The choice among several priors by cross-validation or an information criterion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from numbers import Real

import numpy as np
import pandas as pd

from ..errors import DataError
from ..fit import Problem
from ..priors import Prior
from .fold_score_comparison import best_of
from .variance_chooser_interface import VarianceChooser
from .variance_search import Selection

__all__ = ["check_compared", "choose_among"]

# A prior to compare, and its entries in the table of results.
Candidate = tuple[Prior | None, dict[str, object]]


def choose_among(
    chooser: VarianceChooser, problem: Problem, choose: Callable[[Problem, bool], Selection]
) -> Selection:
    """Choose the prior of a problem and its variance.

    Parameters
    ----------
    chooser : CrossValidation or InformationCriterion
    choose : callable
        Takes a problem and whether its prior is the only candidate, and finds the best variance.
    """
    prior = problem.prior
    if prior is not None and prior.adaptive and isinstance(chooser.search, str):
        raise DataError(
            f"A {type(prior).__name__} prior has no path of variances to walk: list those to try "
            f"in {type(chooser).__name__}(search=[…])."
        )
    found: list[tuple[Selection, dict[str, object]]] = []
    candidates = _candidates(prior, chooser.compare)
    for one, entries in candidates:
        path = None if one is None else one.for_comparison(entries)
        selection = choose(replace(problem, prior=path), len(candidates) == 1)
        if one is not None:  # Of the class that the user gave.
            selection = replace(selection, prior=replace(one, **selection.prior.get_params()))
        found.append((selection, entries))
    if len(found) == 1:
        return found[0][0]
    tables = []
    for selection, entries in found:
        table = selection.results.copy()
        for at, (name, value) in enumerate(entries.items()):
            table.insert(at, f"prior__{name}" if name in table else name, value)
        tables.append(table)
    best = best_of(np.array([selection.score for selection, _ in found]))
    columns = max(tables, key=lambda table: table.shape[1]).columns  # Some tables include slopes.
    return replace(found[best][0], results=pd.concat(tables, ignore_index=True)[columns])


def _candidates(
    prior: Prior | None, compare: Mapping[str, Sequence[object]] | None
) -> list[Candidate]:
    """Return all combinations of the compared settings and of the prior's own alternatives."""
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
        changed: dict[str, object] = {}
        entries: dict[str, object] = {}
        for name, place in zip(names, places, strict=True):
            assert compare is not None
            changed[name] = value = compare[name][place]
            entries[name] = value if isinstance(value, Real | str) else place
        one = replace(prior, **changed)
        for each in one.candidates():
            setting = str(one.multi_valued)
            own = {} if each is one else {setting: getattr(each, setting)}
            out.append((each, {**entries, **own}))
    return out


def _refuse_moved(prior: Prior, compare: Mapping[str, Sequence[object]] | None) -> None:
    """Reject settings that the path of variances changes itself."""
    for name, values in (compare or {}).items():
        unit = [replace(prior, **{name: value}).with_variance(1.0).get_params() for value in values]
        for before, after in pairwise(unit):
            if all(_same(before[key], after[key]) for key in before):
                raise DataError(
                    f"compare has values of {name!r} that the path of {type(prior).__name__} "
                    "moves itself; list them in search."
                )


def _same(a: object, b: object) -> bool:
    """Return whether two values of a setting are equal."""
    if isinstance(a, Mapping) or isinstance(b, Mapping):
        return bool(a == b)
    return bool(np.array_equal(np.asarray(a), np.asarray(b)))


def check_compared(compare: object) -> None:
    """Reject a comparison that does not map names to sequences."""
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
