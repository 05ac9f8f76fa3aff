"""What a user calls on a model has BLAS on one thread: no digit depends on how many there are."""

from __future__ import annotations

from inspect import isfunction
from typing import Any

from ..backends.blas import single_threaded_blas

__all__ = ["SingleThreadedMethods"]


class SingleThreadedMethods:
    """The public methods and properties of every subclass keep BLAS to one thread.

    A fit, a covariance matrix, a test and a prediction all end in BLAS somewhere, and it would be
    easy to forget one; so it is the class that sees to it.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        for name, x in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if isfunction(x):
                setattr(cls, name, single_threaded_blas()(x))
            elif isinstance(x, property) and x.fget is not None:
                setattr(cls, name, x.getter(single_threaded_blas()(x.fget)))
        super().__init_subclass__(**kwargs)
