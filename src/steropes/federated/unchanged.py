"""Whether a site's rows are still those of its earlier answers, which is for the site to notice.

A site keeps nothing between rounds but what it sent. So it makes some of that again and compares:
the description of the first round, and a loss of the last one. Rows that were
added, corrected or put in another order (which cuts other folds) show there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import DataError
from .plan import FederatedPlan
from .protocol import Message, Value
from .site import FederatedSite

__all__ = ["refuse_changed"]

ROUNDING = 1e-9  # of sums made on two machines


def refuse_changed(
    site: FederatedSite, plan: FederatedPlan, request: Message, answer: Message
) -> None:
    """Refuse to go on with other rows than those of an earlier answer.

    Parameters
    ----------
    request, answer : Message
        An earlier request, and what the site answered to it.

    Raises
    ------
    DataError
    """
    if answer.kind != "answer":
        return
    if request.ask in ("describe", "estimate"):
        values, arrays = site.description(plan)
        size = _sizes(values, arrays)
        same = {k: _same_value(answer.values.get(k), x, size.get(k, 0.0))
                for k, x in values.items()}  # fmt: skip
        same |= {k: k in answer.arrays and _same(answer.arrays[k], x, size.get(k, 0.0))
                 for k, x in arrays.items()}  # fmt: skip
    elif request.ask == "evaluate":
        again = site.answer(plan, _at_the_last_point(request)).arrays
        same = {k: k not in again or _same(answer.arrays[k][-1:], again[k])
                for k in ("loss", "held_out") if k in answer.arrays}  # fmt: skip
    else:
        return
    other = [name for name, alike in same.items() if not alike]
    if other:
        raise DataError(
            f"the rows of site {site.name!r} are not those of round {answer.round}, or its answer "
            f"of then was changed: it would have another {other[0]!r}. Answer with the same rows, "
            "in the same order, or begin again in another folder."
        )


def _at_the_last_point(request: Message) -> Message:
    """The same request at its last point alone, without a Hessian."""
    arrays = {k: request.arrays[k][-1:] for k in ("points", "intercepts", "folds")
              if k in request.arrays}  # fmt: skip
    none = np.empty(0, np.int64)
    arrays |= {"center": request.arrays["center"], "columns": none, "hessians": none}
    return replace(request, arrays=arrays)


def _sizes(values: dict[str, Value], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """What sums may cancel to nothing of: those of columns and of an outcome about their mean."""
    out: dict[str, Any] = {"mean": np.sqrt(arrays["variance"])}
    weight, variance = values["weight"], values.get("outcome_variance", 0.0)
    assert isinstance(weight, int | float)
    assert isinstance(variance, int | float)
    return out | {"outcome": weight * np.sqrt(variance)}


def _same_value(a: Value | None, b: Value, size: Any) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return _same(np.asarray(a), np.asarray(b), size)
    return a == b


def _same(a: np.ndarray, b: np.ndarray, size: Any = 0.0) -> bool:
    if a.shape != b.shape:
        return False
    a, b = np.asarray(a, float), np.asarray(b, float)
    room = ROUNDING * (np.abs(b) + size) + 1e-6 * ROUNDING * np.max(np.abs(b), initial=0.0)
    return bool(((np.abs(a - b) <= room) | (a == b)).all())
