"""Penalties on norms of groups of coefficients and on steps along chains of coefficients.

A chain of coefficients has steps θ_j = β_j − β_{before j}, the first one from zero; any other
coefficient is its own step, θ_j = β_j. The penalty is Σ_g λ_g ‖θ_g‖ over groups of steps, most of
which have one step, so that the norm is |θ_j|. With β = C θ the gradient of a loss with respect to
the steps is C' g, a sum from a coefficient to the end of its chain, and the optimality conditions
are

    C'g_g + λ_g θ_g / ‖θ_g‖ = 0  if θ_g ≠ 0,    ‖C'g_g‖ ≤ λ_g  if θ_g = 0

(Yuan and Lin 2006, eq. 2.4; Tibshirani and others 2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["GroupPenalty"]


@dataclass(frozen=True)
class GroupPenalty:
    """The penalty Σ_g λ_g ‖θ_g‖ over p coefficients; see the module's docstring.

    Attributes
    ----------
    l1 : (p,) array
        λ of the group of each step; zero for no penalty.
    groups : tuple of int arrays
        Steps of each group with more than one step.
    chains : tuple of int arrays
        Coefficients of each chain, in order.
    """

    l1: np.ndarray
    groups: tuple[np.ndarray, ...] = ()
    chains: tuple[np.ndarray, ...] = ()

    def shifted_by(self, n: int) -> GroupPenalty:
        """Return the penalty with n unpenalised coefficients inserted in front."""
        return GroupPenalty(
            np.concatenate([np.zeros(n), self.l1]),
            tuple(x + n for x in self.groups), tuple(x + n for x in self.chains),
        )  # fmt: skip

    def only(self, columns: np.ndarray) -> GroupPenalty:
        """Return the penalty of some columns, which must not cut a group or chain."""
        place = np.full(len(self.l1), -1)
        place[columns] = np.arange(len(columns))

        def inside(sets: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
            return tuple(place[x] for x in sets if place[x[0]] >= 0)

        return GroupPenalty(self.l1[columns], inside(self.groups), inside(self.chains))

    def closed(self, columns: np.ndarray) -> np.ndarray:
        """Return the columns together with all others in the same groups or chains."""
        mask = np.zeros(len(self.l1), bool)
        mask[columns] = True
        for x in (*self.groups, *self.chains):
            mask[x] = mask[x].any()
        return np.flatnonzero(mask)

    def joins(self, columns: np.ndarray) -> bool:
        """Return whether one of the columns is in a group or a chain."""
        return any(bool(np.isin(columns, x).any()) for x in (*self.groups, *self.chains))

    def steps(self, beta: np.ndarray) -> np.ndarray:
        """Compute the steps θ of coefficients, (p, B)."""
        theta = np.array(beta, np.float64)
        for x in self.chains:
            theta[x[1:]] = beta[x[1:]] - beta[x[:-1]]
        return theta

    def coefficients(self, theta: np.ndarray) -> np.ndarray:
        """Compute β = C θ, (p, B)."""
        beta = np.array(theta, np.float64)
        for x in self.chains:
            beta[x] = np.cumsum(theta[x], axis=0)
        return beta

    def slopes(self, g: np.ndarray) -> np.ndarray:
        """Compute C' g, the gradient with respect to the steps, (p, B)."""
        out = np.array(g, np.float64)
        for x in self.chains:
            out[x] = np.cumsum(g[x[::-1]], axis=0)[::-1]
        return out

    def in_steps(self, H: np.ndarray) -> np.ndarray:
        """Compute C' H C for a matrix H over the coefficients."""
        return self.slopes(self.slopes(H).T)

    def norms(self, x: np.ndarray) -> np.ndarray:
        """Compute the norm of each step's group, (p, B)."""
        out = np.abs(x)
        for at in self.groups:
            out[at] = np.sqrt((x[at] ** 2).sum(axis=0))
        return out

    def moves(self, theta: np.ndarray) -> np.ndarray:
        """Return which steps (p,) a small change of the data would change."""
        return (theta != 0) | (self.l1 == 0)

    def value(self, beta: np.ndarray) -> np.ndarray:
        """Compute Σ λ_g ‖θ_g‖, (B,)."""
        theta = self.steps(beta)
        size = np.array([len(x) for x in self.groups], np.float64)
        share = np.ones(len(self.l1))
        for x, m in zip(self.groups, size, strict=True):
            share[x] = 1.0 / m
        return ((self.l1 * share)[:, None] * self.norms(theta)).sum(axis=0)

    def violations(self, g: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """Compute the distance of zero from the subdifferential, (p, B), for a loss gradient g.

        Distances refer to the steps; each step of a group at zero has the distance of the group.
        """
        theta, slope, lam = self.steps(beta), self.slopes(g), self.l1[:, None]
        size = self.norms(theta)
        there = size > 0
        unit = theta / np.where(there, size, 1.0)
        return np.where(there, np.abs(slope + lam * unit), np.maximum(self.norms(slope) - lam, 0.0))

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """Compute the second derivative in the steps (p,) of nonzero groups, (p, p)."""
        out = np.zeros((len(theta), len(theta)))
        for x in self.groups:
            size = np.sqrt((theta[x] ** 2).sum())
            if size > 0:
                u = theta[x] / size
                out[np.ix_(x, x)] = self.l1[x[0]] / size * (np.eye(len(x)) - np.outer(u, u))
        return out
