"""Sums over all sites of Cox models whose risk sets hold people of all of them."""

from __future__ import annotations

import numpy as np

from .evaluations import Evaluations, Known
from .exchange import Exchange
from .protocol import Message
from .risk_sets import PooledRiskSets, RiskSums, Shares
from .site_sums import unpacked

__all__ = ["RiskSetEvaluations"]

EXACT = 1e-9  # relative error of a Hessian's weights that standard errors may have


class RiskSetEvaluations(Evaluations):
    """Of Cox models whose risk sets hold people of all sites.

    Parameters
    ----------
    times : (T,) array
    """

    def __init__(
        self, exchange: Exchange, center: np.ndarray, l1: np.ndarray, times: np.ndarray
    ) -> None:
        super().__init__(exchange.plan, center, l1)
        self.exchange, self.times = exchange, times
        self.ties = self.plan.ties or "efron"

    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> Known:
        arrays = {
            "points": np.array([theta, *more]), "center": self.center, "columns": columns,
            "times": self.times,
        }  # fmt: skip
        near = self.find(theta)
        shares: Shares | None = None
        from_ = near if near is not None and near.sums is not None else self.base
        if from_ is not None and from_.sums is not None:
            shares = PooledRiskSets(from_.sums, self.ties).predicted(theta - from_.theta)
            arrays |= {"a": shares.a, "b": shares.b}
        answers = self.exchange.ask("risk_sets", arrays)
        m = 1 + len(more)
        sums = RiskSums.total([self._read(a, m, len(columns), "a" in arrays) for a in answers])
        pooled = PooledRiskSets(sums, self.ties)
        losses = pooled.losses()
        for point, value in zip(more, losses[1:], strict=True):
            if self.find(point) is None:
                self.keep(Known(point, float(value)))
        at = Known(theta, float(losses[0]), pooled.gradient(), columns, sums=sums)
        if sums.second is not None:
            at.hessian, at.uncentred = pooled.hessian(columns), np.diag(sums.second).copy()
        if shares is not None and np.isfinite(at.loss):
            real = pooled.shares(sums.S[0], sums.E[0])
            at.off = float(np.max(np.abs(shares.a - real.a) / np.maximum(real.a, 1e-300)))
        return self.keep(at)

    def exact_hessian(
        self, theta: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Evaluations.exact_hessian`: with the shares of the point itself."""
        found = self.hessian(theta, columns)
        at = self.find(theta)
        if at is None or at.off <= EXACT:
            return found
        self._ask(theta, at.columns, [])
        return self.hessian(theta, columns)

    def _read(self, answer: Message, m: int, k: int, second: bool) -> RiskSums:
        T, p = len(self.times), self.P
        return RiskSums(
            S=answer.array("S", (m, T)),
            E=answer.array("E", (m, T)),
            linear=answer.array("linear", (m,)),
            S1=answer.array("S1", (T, p)),
            E1=answer.array("E1", (T, p)),
            covariates=answer.array("covariates", (p,)),
            count=answer.array("count", (T,)),
            weight=answer.array("weight", (T,)),
            second=unpacked(answer.array("second", (k * (k + 1) // 2,)), k) if second else None,
        )
