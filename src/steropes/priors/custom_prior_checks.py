"""Checks of the values that the hooks of a prior return, so that a mistake is named at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import DataError
from .penalty import Penalty, SmoothTerm
from .prior_base_class import Prior

__all__ = ["checked_next_penalty", "checked_separable", "checked_smooth"]


def checked_separable(prior: Prior, names: Sequence[str]) -> Penalty:
    """Return the penalty of `Prior.separable` as arrays; raise `DataError` if it is invalid."""
    return _checked(prior, "separable", prior.separable(names), len(names))


def checked_next_penalty(
    prior: Prior, names: Sequence[str], beta: np.ndarray, before: np.ndarray | None
) -> Penalty:
    """Return the penalty of `Prior.next_penalty` as arrays; raise `DataError` if it is invalid."""
    return _checked(prior, "next_penalty", prior.next_penalty(names, beta, before), len(names))


def _checked(prior: Prior, hook: str, penalty: Penalty, p: int) -> Penalty:
    """Return a penalty as arrays; raise `DataError` unless it has p valid λ and κ.

    Parameters
    ----------
    hook : str
        The method of the prior that returned the penalty.
    p : int
        Number of columns.
    """
    where = f"{type(prior).__name__}.{hook}"
    if not isinstance(penalty, Penalty):
        raise DataError(f"{where} must return a Penalty, not {type(penalty).__name__}.")
    l1, l2 = np.asarray(penalty.l1, np.float64), np.asarray(penalty.l2, np.float64)
    for name, x in (("l1", l1), ("l2", l2)):
        if x.shape != (p,):
            raise DataError(
                f"{where} must return one λ and one κ for each of the {p} columns, but {name} of "
                f"its penalty has shape {x.shape}."
            )
        bad = ~(x >= 0)  # NaN as well
        if bad.any():
            j = int(bad.argmax())
            raise DataError(
                f"{where} returned {name}={x[j]:g} for column {j}: it must be zero or positive."
            )
    return Penalty(l1, l2)


def checked_smooth(prior: Prior, names: Sequence[str]) -> SmoothTerm | None:
    """Return the prior's smooth term; raise `DataError` if its arrays have wrong shapes.

    Parameters
    ----------
    names : sequence of str
        Names of the p columns.
    """
    term = prior.smooth(names)
    if term is None:
        return None
    p, B = len(names), 2
    beta, columns = np.zeros((p, B)), np.arange(min(p, 2))
    k = len(columns)
    found = {
        "value": (np.shape(term.value(beta)), (B,), "coefficients of shape (p, B)"),
        "gradient": (np.shape(term.gradient(beta)), (p, B), "coefficients of shape (p, B)"),
        "hessian": (
            np.shape(term.hessian(beta[:, 0], columns)), (k, k), "coefficients (p,) and k columns"
        ),
    }  # fmt: skip
    for method, (shape, expected, given) in found.items():
        if shape != expected:
            raise DataError(
                f"The smooth term of {type(prior).__name__} has a wrong {method}: for {given}, "
                f"here p={p}, B={B} and k={k}, it must have shape {expected}, not {shape}."
            )
    return term
