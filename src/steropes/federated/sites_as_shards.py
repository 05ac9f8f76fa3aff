"""Sites as shards of the solver's data term; requests are looked up or asked in rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import DataError
from ..solve.data_term import ShardedTerm
from ..solve.data_term.sharded.shard_messages import (
    Answer,
    Ask,
    At,
    Gradients,
    Hessian,
    Request,
    Totals,
    Value,
)
from .pooled_evaluations import Evaluations

__all__ = ["FederatedTerm", "SiteShards"]


class FederatedTerm(ShardedTerm):
    """A data term with Hessians that arrive with the gradients, a new one for each step."""

    def hessian_cost(self, coarse: bool) -> float:
        """See `DataTerm.hessian_cost`."""
        return 1.0


class SiteShards:
    """All sites together as one shard with its own row weights; see `Shards`.

    Parameters
    ----------
    scale : (P,) array
        Factors by which coefficients are multiplied for the solver.
    weight : float
        Total weight of the rows.
    """

    def __init__(
        self, evaluations: Evaluations, scale: np.ndarray, weight: float, rows: int
    ) -> None:
        self.evaluations, self.scale, self.weight = evaluations, scale, weight
        self.rows = rows

    def bind(self, weights: np.ndarray, offset: np.ndarray | None, B: int) -> str:
        """See `Shards.bind`; the weights of the single replicate are at the sites."""
        if B != 1 or offset is not None:
            raise DataError("sites have the rows of one fit, with their own weights and offsets")
        return "sites"

    def release(self, key: str) -> None:
        """See `Shards.release`; nothing is kept that could be released."""

    def ask(self, request: Request) -> Sequence[Answer]:
        """See `Shards.ask`."""
        out: dict[str, np.ndarray] = {}
        for ask in request.asks:
            out |= self._answer(request.at, ask)
        return [out]

    def _answer(self, at: At, ask: Ask) -> dict[str, np.ndarray]:
        """Answer one item of a request."""
        theta = np.zeros(len(self.scale))
        theta[at.columns] = at.beta[:, 0] / self.scale[at.columns]
        match ask:
            case Totals():
                return {"weight": np.array([self.weight]), "rows": np.array(self.rows)}
            case Value():
                loss, g = self.evaluations.value(theta)
                own = (g / self.scale)[at.columns][:, None]
                entries = np.array(self.rows * len(at.columns))
                return {"loss": np.array([loss]), "gradient": own, "entries": entries}
            case Gradients():
                return {"gradients": (self.evaluations.value(theta)[1] / self.scale)[:, None]}
            case Hessian():
                H, raw = self.evaluations.hessian(theta, at.columns)
                scale = self.scale[at.columns]
                if ask.matrix:
                    return {"matrix": (H / scale / scale[:, None])[ask.first :]}
                return {"diagonal": np.diag(H) / scale**2, "uncentred": raw / scale**2}
            case _:
                raise DataError(f"sites are not asked for {type(ask).__name__}")
