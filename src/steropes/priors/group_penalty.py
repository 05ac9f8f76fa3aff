"""Penalties with corners that belong to no single coefficient: norms of groups, steps of chains.

A chain of coefficients has steps θ_j = β_j − β_{before j}, the first from zero; every other
coefficient is its own step, θ_j = β_j. The penalty is Σ_g λ_g ‖θ_g‖ over groups of steps, most of
them of one step, where the norm is |θ_j|. With β = C θ the slopes of a loss in the steps are C' g,
sums from a coefficient to the end of its chain, and the optimality conditions are

    C'g_g + λ_g θ_g / ‖θ_g‖ = 0  where θ_g ≠ 0,    ‖C'g_g‖ ≤ λ_g  where it is zero

(Yuan and Lin 2006, eq. 2.4; Tibshirani and others 2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["GroupPenalty"]


@dataclass(frozen=True)
class GroupPenalty:
    """Σ_g λ_g ‖θ_g‖ over p coefficients; see the module.

    Attributes
    ----------
    l1 : (p,) array
        λ of the group of each step; zero for none.
    groups : tuple of int arrays
        Steps that have a norm together, those of more than one.
    chains : tuple of int arrays
        Coefficients in the order of their chain.
    """

    l1: np.ndarray
    groups: tuple[np.ndarray, ...] = ()
    chains: tuple[np.ndarray, ...] = ()

    def behind(self, n: int) -> GroupPenalty:
        """The same with n coefficients without penalty before these."""
        return GroupPenalty(
            np.concatenate([np.zeros(n), self.l1]),
            tuple(x + n for x in self.groups), tuple(x + n for x in self.chains),
        )  # fmt: skip

    def only(self, columns: np.ndarray) -> GroupPenalty:
        """The penalty of some columns, which hold whole groups and chains or none of them."""
        place = np.full(len(self.l1), -1)
        place[columns] = np.arange(len(columns))

        def inside(sets: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
            return tuple(place[x] for x in sets if place[x[0]] >= 0)

        return GroupPenalty(self.l1[columns], inside(self.groups), inside(self.chains))

    def closed(self, columns: np.ndarray) -> np.ndarray:
        """The columns and all that are in a group or chain with one of them."""
        mask = np.zeros(len(self.l1), bool)
        mask[columns] = True
        for x in (*self.groups, *self.chains):
            mask[x] = mask[x].any()
        return np.flatnonzero(mask)

    def joins(self, columns: np.ndarray) -> bool:
        """Whether one of the columns is in a group or a chain."""
        return any(bool(np.isin(columns, x).any()) for x in (*self.groups, *self.chains))

    def steps(self, beta: np.ndarray) -> np.ndarray:
        """θ of coefficients, (p, B)."""
        theta = np.array(beta, np.float64)
        for x in self.chains:
            theta[x[1:]] = beta[x[1:]] - beta[x[:-1]]
        return theta

    def coefficients(self, theta: np.ndarray) -> np.ndarray:
        """β = C θ, (p, B)."""
        beta = np.array(theta, np.float64)
        for x in self.chains:
            beta[x] = np.cumsum(theta[x], axis=0)
        return beta

    def slopes(self, g: np.ndarray) -> np.ndarray:
        """C' g: slopes in the steps, (p, B), of a gradient in the coefficients."""
        out = np.array(g, np.float64)
        for x in self.chains:
            out[x] = np.cumsum(g[x[::-1]], axis=0)[::-1]
        return out

    def in_steps(self, H: np.ndarray) -> np.ndarray:
        """C' H C of a matrix over the coefficients."""
        return self.slopes(self.slopes(H).T)

    def norms(self, x: np.ndarray) -> np.ndarray:
        """Norm of each step's group, (p, B)."""
        out = np.abs(x)
        for at in self.groups:
            out[at] = np.sqrt((x[at] ** 2).sum(axis=0))
        return out

    def value(self, beta: np.ndarray) -> np.ndarray:
        """Σ λ_g ‖θ_g‖, (B,)."""
        theta = self.steps(beta)
        size = np.array([len(x) for x in self.groups], np.float64)
        share = np.ones(len(self.l1))
        for x, m in zip(self.groups, size, strict=True):
            share[x] = 1.0 / m
        return ((self.l1 * share)[:, None] * self.norms(theta)).sum(axis=0)

    def violations(self, g: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """Distance of zero from the subdifferential, (p, B), for a gradient g of the loss.

        In the slopes of the steps; of a group that is zero each step has the group's.
        """
        theta, slope, lam = self.steps(beta), self.slopes(g), self.l1[:, None]
        size = self.norms(theta)
        there = size > 0
        unit = theta / np.where(there, size, 1.0)
        return np.where(there, np.abs(slope + lam * unit), np.maximum(self.norms(slope) - lam, 0.0))

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """Second derivative of the penalty in the steps (p,) where groups are not zero, (p, p)."""
        out = np.zeros((len(theta), len(theta)))
        for x in self.groups:
            size = np.sqrt((theta[x] ** 2).sum())
            if size > 0:
                u = theta[x] / size
                out[np.ix_(x, x)] = self.l1[x[0]] / size * (np.eye(len(x)) - np.outer(u, u))
        return out
