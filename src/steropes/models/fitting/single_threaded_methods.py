"""Single-threaded BLAS in public methods, so that results do not depend on the thread count."""

from __future__ import annotations

from inspect import isfunction
from typing import TypeVar

from ...backends.blas_threads import single_threaded_blas

__all__ = ["single_threaded_methods"]

C = TypeVar("C", bound=type)


def single_threaded_methods(cls: C) -> C:
    """Restrict BLAS to one thread in the public methods and properties that a class defines.

    Fits, covariance matrices, tests and predictions all call BLAS. Wrapping them when a class is
    created ensures that none is forgotten.
    """
    for name, x in list(vars(cls).items()):
        if name.startswith("_"):
            continue
        if isfunction(x):
            setattr(cls, name, single_threaded_blas()(x))
        elif isinstance(x, property) and x.fget is not None:
            setattr(cls, name, x.getter(single_threaded_blas()(x.fget)))
    return cls
