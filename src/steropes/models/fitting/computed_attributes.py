"""Fitted attributes that are computed on access and may be unavailable."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from ...errors import DataError, SeparationError

__all__ = ["UnavailableAttributeError", "computed_attribute"]

Owner = TypeVar("Owner")
Value = TypeVar("Value")


class UnavailableAttributeError(DataError, AttributeError):
    """The attribute cannot be computed for this fit; the message gives the reason.

    It is an `AttributeError` too, so that ``hasattr``, ``dir`` and ``inspect.getmembers`` work
    on every fitted model, as scikit-learn's `NotFittedError` is.
    """


def computed_attribute(compute: Callable[[Owner], Value]) -> Callable[[Owner], Value]:
    """Report refusals while computing a property as a missing attribute.

    Parameters
    ----------
    compute : callable
        The getter of a property, which may raise `DataError` or `SeparationError`.

    Returns
    -------
    callable
        The getter, raising `UnavailableAttributeError` instead.
    """

    @wraps(compute)
    def getter(self: Owner) -> Value:
        """Compute the attribute; errors of the data mean that it is unavailable."""
        try:
            return compute(self)
        except AttributeError:
            raise
        except (DataError, SeparationError) as error:
            raise UnavailableAttributeError(str(error)) from None

    return getter
