"""Functions of the interval number t = 1 … K, for baselines and time-varying effects."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from ..data.column_lookup import ColumnLookup
from ..errors import DataError

__all__ = ["TimeFunction", "baseline_basis", "channels", "effect_basis"]


class TimeFunction:
    """A function f(t) with the name used in the names of coefficients.

    Attributes
    ----------
    key
        A hashable key, equal for equal functions.
    values : (K,) array
        f(1) … f(K).
    """

    def __init__(self, key: Hashable, name: str, values: np.ndarray) -> None:
        self.key, self.name, self.values = key, name, values


def baseline_basis(spec: object, K: int) -> tuple[np.ndarray, list[str], bool]:
    """Build the columns of a baseline over the intervals.

    Parameters
    ----------
    spec : int, "interval", callable or sequence of callables
        The user's specification of the baseline.
    K : int
        Number of intervals.

    Returns
    -------
    basis : (K, M) array
        The columns, a constant first unless every interval has its own intercept.
    names : list of str
        Names of the columns.
    constant : bool
        Whether the first column is a constant.
    """
    if isinstance(spec, str):
        if spec != "interval":
            raise DataError(
                f"baseline must be a degree, 'interval', or functions of t, not {spec!r}."
            )
        return np.eye(K), [f"t={k + 1}" for k in range(K)], False
    functions = effect_basis(spec, K, "baseline")
    basis = np.column_stack([np.ones(K), *(f.values for f in functions)])
    names = ["intercept", *(f.name for f in functions)]
    _refuse_twice(names, "baseline")
    return basis, names, True


def effect_basis(spec: object, K: int, what: str) -> list[TimeFunction]:
    """Build functions of t other than the constant: powers up to a degree, or callables.

    Parameters
    ----------
    K : int
        Number of intervals.
    what : str
        The name of the setting in messages.
    """
    t = np.arange(1.0, K + 1.0)
    if isinstance(spec, int | np.integer) and not isinstance(spec, bool):
        if spec < 0:
            raise DataError(f"{what}: the degree must be at least 0, not {spec}.")
        return [TimeFunction(d, "t" if d == 1 else f"t^{d}", t**d) for d in range(1, int(spec) + 1)]
    if callable(spec):
        spec = [spec]
    if isinstance(spec, Sequence) and len(spec) and all(callable(f) for f in spec):
        out: list[TimeFunction] = []
        for j, f in enumerate(spec):
            name = getattr(f, "__name__", "<lambda>")
            if name == "<lambda>":
                name = "f" if len(spec) == 1 else f"f{j + 1}"
            out.extend(_evaluate(f, f"{name}(t)", t, what))
        return out
    raise DataError(
        f"{what}: give a degree (a whole number from 0), or a function of t or several, not "
        f"{spec!r}."
    )


def channels(
    spec: object, names: Sequence[str], K: int
) -> tuple[list[TimeFunction], list[tuple[int, int]]]:
    """Assign functions of t to the columns with time-varying effects.

    Parameters
    ----------
    spec : None, mapping or other
        A mapping from names or positions of columns to specifications of `effect_basis`, or one
        specification for all columns.
    names : sequence of str
        Names of the columns of X.
    K : int
        Number of intervals.

    Returns
    -------
    functions : list of TimeFunction
        The distinct functions.
    pairs : list of (int, int)
        Column of X and number of the function, in the order of the columns.
    """
    if spec is None:
        return [], []
    if not isinstance(spec, Mapping):
        spec = dict.fromkeys(range(len(names)), spec)
    places = ColumnLookup(names, "time_varying")
    chosen: dict[int, object] = {}
    for item, value in spec.items():
        j = places.of(item)
        if j in chosen:
            raise DataError(f"time_varying names column {names[j]!r} twice.")
        chosen[j] = value
    functions: list[TimeFunction] = []
    number: dict[Hashable, int] = {}
    pairs: list[tuple[int, int]] = []
    known: dict[object, list[TimeFunction]] = {}
    for j in sorted(chosen):
        value = chosen[j]
        key = tuple(value) if isinstance(value, list) else value
        if key not in known:
            known[key] = effect_basis(value, K, "time_varying")
            _refuse_twice([f.name for f in known[key]], "time_varying")
        for f in known[key]:
            if f.key not in number:
                number[f.key] = len(functions)
                functions.append(f)
            pairs.append((j, number[f.key]))
    return functions, pairs


def _evaluate(f: Callable, name: str, t: np.ndarray, what: str) -> list[TimeFunction]:
    """Evaluate a callable, which returns one or several functions of t."""
    values = np.asarray(f(t.copy()), np.float64)
    if values.ndim not in (1, 2) or len(values) != len(t) or values.size == 0:
        raise DataError(
            f"{what}: {name} must return one value, or one row of values, for each of the "
            f"{len(t)} intervals; it returned shape {values.shape}."
        )
    bad = ~np.isfinite(values.reshape(len(t), -1)).all(axis=1)
    if bad.any():
        raise DataError(f"{what}: {name} is not finite at t = {int(t[bad.argmax()])}.")
    if values.ndim == 1:
        return [TimeFunction((f, 0), name, values)]
    return [
        TimeFunction((f, m), f"{name}[{m + 1}]", values[:, m].copy())
        for m in range(values.shape[1])
    ]


def _refuse_twice(names: list[str], what: str) -> None:
    """Raise if two functions have the same name."""
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"{what}: two functions are called {name!r}; name them apart.")
