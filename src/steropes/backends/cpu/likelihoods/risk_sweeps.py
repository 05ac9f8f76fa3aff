"""Cox's partial likelihood in two sweeps: totals of risk sets forward, derivatives backward.

With the primitives of the backend, the likelihood takes a dozen passes over (n, B) arrays. Rows are
those of `likelihoods.risk_sets.RiskSets` without entry times. Chunks are cut between groups of tied
events and run in parallel; the sums carried between chunks are added in between, so the order of
additions depends on the number of chunks but not of threads. Loops contain no branches on events,
which would often be mispredicted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ...thread_pool import CHUNKS, ThreadPool, balanced_chunks
from ..compilation.kernel_compiler_options import ORDERED
from ..sums.compensated_sums import sum_of, two_sum, with_errors
from ..sums.segmented_sums import scan

__all__ = ["RiskSweeps"]

HIGHEST = 700.0
# The range of sums within which no significant term underflowed or overflowed.
SMALL, LARGE = 1e-250, 1e250


@njit(**ORDERED)
def pick(C, r, eta, w, tied, tied_end, first, fraction, shares, i0, g0, g1, S, loss):
    """Extract the sums over risk sets from the running sums C of a chunk, and −Σ_events w η.

    ``shares`` is empty where each group has one, of all its events. ``loss`` (2, B) is a sum and
    its errors.
    """
    B = r.shape[1]
    if shares.size == 0:
        for g in range(g0, g1):
            for b in range(B):
                S[g, b] = C[tied_end[g] - 1 - i0, b]
    else:
        E, lost = np.empty(B), np.empty(B)
        for g in range(g0, g1):
            E[:] = 0.0
            lost[:] = 0.0
            for i in range(tied[g], tied_end[g]):
                for b in range(B):
                    E[b], error = two_sum(E[b], r[i, b])
                    lost[b] += error
            for b in range(B):
                E[b] = sum_of(E[b], lost[b])
            before = tied[g] - 1 - i0  # the row before the events, in the same stratum if any is
            alone = before < 0 or (first[g] >= 0 and first[g] == tied[g])
            for k in range(shares[g], shares[g + 1]):
                for b in range(B):
                    S[k, b] = fraction[k, b] * E[b] + (0.0 if alone else C[before, b])
    for g in range(g0, g1):
        for i in range(tied[g], tied_end[g]):
            for b in range(B):
                loss[0, b], error = two_sum(loss[0, b], -w[i, b] * eta[i, b])
                loss[1, b] += error


@njit(**ORDERED)
def settle(S, share, k0, k1, k_first, start):
    """Add the sum at risk before the chunk; 1 for shares without weight. False if out of range."""
    B = S.shape[1]
    good = True
    for k in range(k0, k_first):
        for b in range(B):
            S[k, b] += start[b]
    for k in range(k0, k1):
        for b in range(B):
            x = S[k, b]
            if share[k, b] == 0.0:
                x = 1.0
            good = good and SMALL < x < LARGE
            S[k, b] = x
    return good


@njit(**ORDERED)
def accumulate(S, logs, share, shares, fraction, first, g0, g1, m, table, loss, total):
    """Compute hazards, their backward sums over the chunk and Σ share × log S."""
    B = S.shape[1]
    table_own = table[m + 1 :]
    k0 = g0 if shares.size == 0 else shares[g0]
    for k in range(k0, k0 + len(logs)):
        for b in range(B):
            loss[0, b], error = two_sum(loss[0, b], share[k, b] * logs[k - k0, b])
            loss[1, b] += error
            S[k, b] = share[k, b] / S[k, b]
    after, lost, own, own_lost = np.zeros(B), np.zeros(B), np.zeros(B), np.zeros(B)
    for g in range(g1 - 1, g0 - 1, -1):
        if g + 1 == g1 or first[g + 1] >= 0:
            after[:] = 0.0
            lost[:] = 0.0
        if shares.size == 0:
            for b in range(B):
                after[b], error = two_sum(after[b], S[g, b])
                lost[b] += error
        else:
            own[:] = after
            own_lost[:] = lost
            for k in range(shares[g], shares[g + 1]):
                for b in range(B):
                    after[b], error = two_sum(after[b], S[k, b])
                    lost[b] += error
                    own[b], error = two_sum(own[b], fraction[k, b] * S[k, b])
                    own_lost[b] += error
            for b in range(B):
                table_own[g, b] = sum_of(own[b], own_lost[b])
        for b in range(B):
            table[g, b] = sum_of(after[b], lost[b])
    for b in range(B):
        total[b] = table[g0, b]


@njit(**ORDERED)
def spread(r, w, tied, tied_end, g0, g1, table, place, i0, i_last, i1, ahead):
    """Turn r into the gradient r × (cumulative hazard while at risk) − w of the events.

    ``ahead`` is the hazard of later chunks, for the rows from ``i_last`` on.
    """
    B = r.shape[1]
    for i in range(i0, i_last):
        p = place[i]
        for b in range(B):
            r[i, b] *= table[p, b]
    for i in range(i_last, i1):
        p = place[i]
        for b in range(B):
            r[i, b] *= table[p, b] + ahead[b]
    for g in range(g0, g1):
        for i in range(tied[g], tied_end[g]):
            for b in range(B):
                r[i, b] -= w[i, b]


class _Chunk(NamedTuple):
    g0: int
    g1: int
    i0: int  # its rows
    i1: int
    pointers: np.ndarray  # its strata, in rows from i0 on
    k0: int  # its shares
    k1: int
    k_first: int  # those before it of a stratum that began in an earlier chunk
    i_last: int  # rows from here on are of the stratum that it ends with
    begins: bool  # a stratum begins with its first group
    whole: bool  # it is within one stratum, which began earlier


class RiskSweeps:
    """The sweeps over the risk sets of one model.

    Parameters
    ----------
    n : int
        Rows.
    strata_start : (S + 1,) int array
        Where the strata begin and end among the rows.
    groups_start : (S + 1,) int array
        Where they begin and end among the groups of tied events.
    tied_start, tied_end : (m,) int arrays
        Rows of each group's events.
    place : (n,) int array
        For each row the first group that it is at risk in, or its own; m without one;
        m + 1 + its own where the tied events are not all in their own risk set.
    share_start : (m + 1,) int array or None
        Where each group's shares begin and end (see `likelihoods.cox_likelihood`); None means
        one share per group.
    """

    def __init__(
        self,
        n: int,
        strata_start: np.ndarray,
        groups_start: np.ndarray,
        tied_start: np.ndarray,
        tied_end: np.ndarray,
        place: np.ndarray,
        share_start: np.ndarray | None,
        pool: ThreadPool,
    ) -> None:
        self.n, self.m, self.pool = n, len(tied_start), pool
        self.tied, self.tied_end = tied_start, tied_end
        self.place = place.astype(np.int32, copy=False) if 2 * self.m < 2**31 else place
        self.shares = np.empty(0, np.int64) if share_start is None else share_start
        filled = np.flatnonzero(np.diff(groups_start) > 0)
        # The first row of the stratum that a group is the first of; −1 for the others.
        self.first = np.full(self.m, -1, np.int64)
        self.first[groups_start[filled]] = strata_start[filled]
        self.chunks: list[_Chunk] = []
        cuts = balanced_chunks(np.append(tied_end, n), CHUNKS) if self.m else []
        share = np.arange(self.m + 1) if share_start is None else share_start
        for c, (g0, g1) in enumerate(cuts):
            i0 = 0 if c == 0 else int(tied_end[g0 - 1])
            i1 = n if c == len(cuts) - 1 else int(tied_end[g1 - 1])
            inside = strata_start[(strata_start > i0) & (strata_start < i1)] - i0
            begin = np.flatnonzero(self.first[g0:g1] >= 0)
            first = g1 if len(begin) == 0 else g0 + int(begin[0])
            i_last = i0 if len(begin) == 0 else int(self.first[g0 + begin[-1]])
            self.chunks.append(
                _Chunk(
                    g0, g1, i0, i1, np.concatenate([[0], inside, [i1 - i0]]), int(share[g0]),
                    int(share[g1]), int(share[first]), max(i0, i_last), first == g0,
                    len(begin) == 0,
                )
            )  # fmt: skip

    def evaluate(
        self, eta: np.ndarray, w: np.ndarray, share: np.ndarray, fraction: np.ndarray | None,
        gradient: bool = True,
    ) -> tuple[np.ndarray, np.ndarray | None] | None:  # fmt: skip
        """Compute the loss (B,) and its gradient (n, B), or None if sums over- or underflow.

        Parameters
        ----------
        eta, w : (n, B) arrays
            Linear predictor and weights.
        share, fraction : (K, B) arrays
            Weight of each share and the part of the tied events that stays in its risk set;
            None where that is all of them.
        """
        if not self.chunks:
            return None
        B, N = eta.shape[1], len(self.chunks)
        eta, w = np.ascontiguousarray(eta), np.ascontiguousarray(w)
        if fraction is None:
            fraction = np.empty((0, B))
        r, S = np.empty_like(eta), np.empty_like(share)
        total, ahead = np.zeros((2, N, B))
        loss = np.zeros((N, 2, B))  # each chunk's sum, and its errors
        shares, first, work = self.shares, self.first, 8 * eta.size

        def rates(c: int) -> None:
            x = self.chunks[c]
            part = r[x.i0 : x.i1]
            with np.errstate(over="ignore", invalid="ignore"):
                # Where exp is near its end the sums of those at risk are LARGE; of the others,
                # who are never at risk or weigh nothing, nothing must be infinite.
                np.minimum(eta[x.i0 : x.i1], HIGHEST, out=part)
                np.exp(part, out=part)
                part *= w[x.i0 : x.i1]
            C = np.empty_like(part)
            scan(part, x.pointers, False, C, 0, len(x.pointers) - 1)
            total[c] = C[-1]
            pick(
                C, r, eta, w, self.tied, self.tied_end, first, fraction, shares, x.i0, x.g0, x.g1,
                S, loss[c],
            )  # fmt: skip

        self.pool.map(rates, [(c,) for c in range(N)], work)
        start = np.zeros_like(total)  # the sum over rows at risk when a chunk begins
        with np.errstate(over="ignore"):  # an infinite loss makes the line search step back
            for c in range(1, N):
                start[c] = total[c - 1] + (start[c - 1] if self.chunks[c - 1].whole else 0.0)
        table = np.zeros((self.m + 1 if shares.size == 0 else 2 * self.m + 1, B))

        def hazards(c: int) -> bool:
            x = self.chunks[c]
            if not settle(S, share, x.k0, x.k1, x.k_first, start[c]):
                return False
            logs = np.log(S[x.k0 : x.k1])
            accumulate(
                S, logs, share, shares, fraction, first, x.g0, x.g1, self.m, table, loss[c],
                total[c],
            )  # fmt: skip
            return True

        if not all(self.pool.map(hazards, [(c,) for c in range(N)], work)):
            return None
        sums = with_errors(loss.sum(axis=0))
        if not gradient:
            return sums, None
        for c in range(N - 2, -1, -1):
            if not self.chunks[c + 1].begins:  # the stratum goes on
                ahead[c] = total[c + 1] + (ahead[c + 1] if self.chunks[c + 1].whole else 0.0)

        def back(c: int) -> None:
            x = self.chunks[c]
            spread(
                r, w, self.tied, self.tied_end, x.g0, x.g1, table, self.place, x.i0, x.i_last,
                x.i1, ahead[c],
            )  # fmt: skip

        self.pool.map(back, [(c,) for c in range(N)], work)
        return sums, r
