"""Groups of functions of a fitted model, such as ``model.inference``."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from inspect import signature
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from ...backends.blas_threads import single_threaded_blas

__all__ = ["Accessor", "accessor", "function_of_model", "overloaded_function_of_model"]

P = ParamSpec("P")
R = TypeVar("R")


class Accessor:
    """Base class of groups of functions of a fitted model.

    Parameters
    ----------
    model : PenalizedModel
        The model whose fit the functions describe.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def __repr__(self) -> str:
        """List the functions."""
        names = ", ".join(name for name in dir(self) if not name.startswith("_"))
        return f"{type(self).__name__} of {type(self._model).__name__}: {names}"


class function_of_model(Generic[P, R]):
    """A function whose first argument is a fitted model, as a method of an `Accessor`.

    BLAS runs on one thread in it, so that results do not depend on the number of threads.
    """

    def __init__(self, function: Callable[Concatenate[Any, P], R]) -> None:
        self.function = update_wrapper(single_threaded_blas()(function), function)
        self.__doc__ = function.__doc__
        # For readers of the class, the model stands where methods have self.
        shown = signature(function)
        first, *rest = shown.parameters.values()
        shown = shown.replace(parameters=[first.replace(name="self"), *rest])
        vars(self.function)["__signature__"] = shown

    @overload
    def __get__(self, group: None, owner: type) -> Callable[Concatenate[Any, P], R]: ...
    @overload
    def __get__(self, group: Accessor, owner: type) -> Callable[P, R]: ...
    def __get__(
        self, group: Accessor | None, owner: type
    ) -> Callable[Concatenate[Any, P], R] | Callable[P, R]:
        """Bind the function to the accessor's model."""
        if group is None:
            return self.function
        return MethodType(self.function, group._model)


F = TypeVar("F", bound=Callable[..., Any])
if TYPE_CHECKING:

    def overloaded_function_of_model(function: F) -> F:
        """Make a function with overloads a method of an accessor, for type checkers.

        A `ParamSpec` takes the first overload alone. The overloads declare their model as ``Any``,
        so that type checkers accept the accessor in its place.
        """
        return function
else:
    overloaded_function_of_model = function_of_model


A = TypeVar("A", bound=Accessor, covariant=True)


class accessor(Generic[A]):
    """A class attribute through which instances have an `Accessor` of themselves."""

    def __init__(self, group: type[A]) -> None:
        self.group = group
        self.__doc__ = group.__doc__

    @overload
    def __get__(self, model: None, owner: type) -> type[A]: ...
    @overload
    def __get__(self, model: object, owner: type) -> A: ...
    def __get__(self, model: object | None, owner: type) -> type[A] | A:
        """Return the accessor of a model, or of the class its type."""
        return self.group if model is None else self.group(model)


# Methods of earlier versions, and their places now.
MOVED = {
    "average_effects": "effects.average",
    "baseline_hazard": "curves.baseline_hazard",
    "baseline_hazard_": "curves.baseline_hazard",
    "bootstrap": "inference.bootstrap",
    "calibration_curve": "validation.calibration_curve",
    "check_assumptions": "checks.assumptions",
    "concordance": "validation.concordance",
    "debiased_lasso": "inference.debiased_lasso",
    "incidence_curves": "curves.incidence",
    "linear_combination": "inference.linear_combination",
    "linear_hypothesis": "inference.linear_hypothesis",
    "model_tests": "inference.model_tests",
    "partial_effect": "effects.partial",
    "plot_alpha": "checks.plot_alpha",
    "posterior": "inference.posterior",
    "predict_expected_events": "curves.expected_events",
    "predict_quantile": "curves.quantile",
    "predict_restricted_mean": "curves.restricted_mean",
    "predict_terms": "effects.terms",
    "prediction_table": "effects.predictions",
    "profile": "inference.profile",
    "residuals": "checks.residuals",
    "standardized_incidence": "curves.standardized_incidence",
    "standardized_survival": "curves.standardized_survival",
    "survival_curves": "curves.survival",
    "term_tests": "inference.term_tests",
    "test_parallelism": "checks.parallelism",
    "test_proportionality": "checks.proportionality",
    "time_dependent_auc": "validation.time_dependent_auc",
    "validate": "validation.validate",
}


def missing_attribute(model: object, name: str) -> str | None:
    """Describe the new place of a method that has moved; None for other names."""
    group, _, function = MOVED.get(name, "").partition(".")
    if not hasattr(getattr(type(model), group, None), function or " "):
        return None
    return (
        f"{type(model).__name__!r} object has no attribute {name!r}; it is model.{group}.{function}"
    )
