"""Single-threaded BLAS in public methods, so that results do not depend on the thread count."""

from __future__ import annotations

from inspect import isfunction

from ...backends.blas_threads import single_threaded_blas

__all__ = ["SingleThreadedMethods"]


class SingleThreadedMethods:
    """Base class that restricts BLAS to one thread in public methods and properties.

    Fits, covariance matrices, tests and predictions all call BLAS. Wrapping them when a subclass
    is created ensures that none is forgotten.
    """

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Wrap the public methods and properties of a subclass."""
        for name, x in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if isfunction(x):
                setattr(cls, name, single_threaded_blas()(x))
            elif isinstance(x, property) and x.fget is not None:
                setattr(cls, name, x.getter(single_threaded_blas()(x.fget)))
        super().__init_subclass__(**kwargs)
