"""scikit-learn's base classes with type declarations for mypy.

scikit-learn ships no types. To mypy its classes are ``Any``, and a subclass of ``Any`` has every
attribute, so that ``model.sumary()`` would pass. This module therefore declares the few names
that estimators inherit, for mypy alone (only mypy treats ``MYPY`` as true; pyright reads
scikit-learn's source). At run time it merely imports the classes.
"""

from __future__ import annotations

from typing import Any

__all__ = ["BaseEstimator", "ClassifierMixin", "RegressorMixin"]

MYPY = False
if MYPY:
    from typing import Self

    from sklearn.utils import Tags

    from ...data.input_types import VectorLike
    from .setting_types import MatrixLike

    class BaseEstimator:
        """Settings by name, state, tags, and requests of metadata."""

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: object) -> Self: ...
        def set_fit_request(self, **request: bool | str | None) -> Self: ...
        def set_predict_request(self, **request: bool | str | None) -> Self: ...
        def set_score_request(self, **request: bool | str | None) -> Self: ...
        def get_metadata_routing(self) -> object: ...
        def __getstate__(self) -> dict[str, object]: ...
        def __setstate__(self, state: dict[str, object]) -> None: ...
        def __sklearn_tags__(self) -> Tags: ...

    class ClassifierMixin:
        """The share of right predictions."""

        def score(
            self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike | None = None
        ) -> float: ...

    class RegressorMixin:
        """R² of the predictions."""

        def score(
            self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike | None = None
        ) -> float: ...

else:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
