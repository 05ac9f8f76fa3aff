"""Base class of blocks of rows in this process, which answer the questions of a solver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np

from ....backends.backend_interface import Backend
from ....design_matrix.design_interfaces import DesignLike
from ..working_set import WorkingColumns
from .shard_messages import Answer, Ask, At, Request

__all__ = ["ShardBase"]


class ShardBase(ABC):
    """Rows in memory, or mapped from disk; see `Shard`.

    Parameters
    ----------
    design : Design
        With the scale and the centre that all shards have.
    order : (m,) int array or None
        The row of X for each row of the model.
    """

    def __init__(self, design: DesignLike, order: np.ndarray | None, backend: Backend) -> None:
        self.design, self._order, self._backend = design, order, backend
        self.active = self._columns()

    def _columns(self) -> WorkingColumns:
        """Create an empty working set of the design's columns."""
        return WorkingColumns(self.design, self._order, self._backend)

    def answer(self, request: Request) -> Answer:
        """See `Shard.answer`."""
        active = self._columns() if request.aside else self.active
        active.set_columns(request.at.columns)
        out: dict[str, np.ndarray] = {}
        for ask in request.asks:
            out.update(self._answer(request.at, ask, active))
        return out

    @abstractmethod
    def _answer(self, at: At, ask: Ask, active: WorkingColumns) -> Iterable[tuple[str, np.ndarray]]:
        """Answer one question as named arrays, over the columns of the request."""
