"""Fitted attributes and methods that some fits do not have."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper, wraps
from types import MethodType
from typing import Any, TypeVar, cast

from ...errors import DataError, SeparationError

__all__ = ["UnavailableAttributeError", "available_after", "computed_attribute"]

Owner = TypeVar("Owner")
Value = TypeVar("Value")
Method = TypeVar("Method", bound=Callable[..., Any])


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


class _AvailableMethod:
    """A method that a check may refuse on access; the class itself has the plain function."""

    def __init__(self, function: Callable[..., Any], check: Callable[[Any], None]) -> None:
        self.function, self.check = function, check
        # For tools that list methods without calling __get__.
        update_wrapper(cast("Any", self), function)

    def __get__(self, model: object | None, owner: type) -> Any:
        if model is None:
            return self.function
        self.check(model)
        return MethodType(self.function, model)


def available_after(check: Callable[[Any], None]) -> Callable[[Method], Method]:
    """Make a method available on models that a check does not refuse.

    scikit-learn's ``available_if`` does the same, but replaces the reason of the check by a
    general message.

    Parameters
    ----------
    check : callable
        Called with the model; raises `UnavailableAttributeError` or `NotFittedError`.

    Returns
    -------
    callable
        A decorator of methods.
    """

    def decorate(function: Method) -> Method:
        return cast("Method", _AvailableMethod(function, check))

    return decorate
