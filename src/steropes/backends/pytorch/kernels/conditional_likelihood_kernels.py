"""The exact conditional likelihood of matched sets on a GPU (kernel 5 of the backend).

With e_d the elementary symmetric polynomial, a set of n rows with d cases has the likelihood
Π_cases e^η / e_d(e^η) (Gail, Lubin and Rubinstein 1981). Rows are tilted by θ to independent draws
with probabilities p_i whose sum is near d, as
`steropes.backends.cpu.likelihoods.conditional_bernoulli` explains. A forward pass gives the
distribution of the number of cases among the first rows, and a backward pass the inclusion
probabilities (Chen, Dempster and Liu 1994).
"""

from __future__ import annotations

import torch

from .triton_or_pytorch_choice import jit, launch, next_power_of_two, tl, use_triton

__all__ = ["MatchedSets", "conditional", "conditional_twin", "conditional_with_triton"]

# The number of states of forward passes that are stored at once.
STATES = 1 << 27
# The number of rows that one step of the tilt's Newton iteration reads together.
ROWS = 64


@jit
def _tilted(eta, w, at, mask, sign, theta):
    """Return which rows count, and their tilted predictors."""
    there = tl.load(w + at, mask=mask, other=0.0) > 0
    return there, sign * tl.load(eta + at, mask=mask, other=0.0) + theta


@jit
def _conditional(
    eta, w, case, pointers, loss, out, states, s0, row0, B,
    K: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Compute the loss and the weighted inclusion probabilities of one set and replicate."""
    s = s0 + tl.program_id(0)
    b = tl.program_id(1)
    first = tl.load(pointers + s)
    last = tl.load(pointers + s + 1)
    i = tl.arange(0, ROWS)
    k = tl.arange(0, K)
    zero = tl.full((), 0.0, tl.float64)
    weight, n, d, middle = zero, zero, zero, zero
    low, high = zero + float("inf"), zero - float("inf")
    for r in range(first, last, ROWS):
        mask = r + i < last
        at = (r + i) * B + b
        own = tl.load(w + at, mask=mask, other=0.0)
        there = own > 0
        x = tl.load(eta + at, mask=mask, other=0.0)
        weight = tl.maximum(weight, tl.max(own, 0))
        n += tl.sum(there.to(tl.float64), 0)
        d += tl.sum(tl.where(there, tl.load(case + r + i, mask=mask, other=0.0), 0.0), 0)
        low = tl.minimum(low, tl.min(tl.where(there, x, float("inf")), 0))
        high = tl.maximum(high, tl.max(tl.where(there, x, float("-inf")), 0))
        middle += tl.sum(tl.where(there, x, 0.0), 0)
    certain = (d == 0.0) | (d == n)
    # Choosing the others is the same with −η, and has fewer states.
    flip = 2.0 * d > n
    sign = tl.where(flip, -1.0, 1.0)
    least = tl.where(flip, -high, low)
    most = tl.where(flip, -low, high)
    drawn = tl.where(flip, n - d, d)
    safe_d = tl.where(certain, 1.0, drawn)
    safe_n = tl.where(certain, 2.0, n)
    logit = tl.log(safe_d) - tl.log(safe_n - safe_d)
    left = logit - most
    right = logit - least
    theta = tl.where(right - left > 8.0, 0.5 * (left + right), logit - sign * middle / safe_n)
    rounds = tl.where(certain, 200, 0)
    while rounds < 200:
        mean, variance = zero, zero
        for r in range(first, last, ROWS):
            there, x = _tilted(eta, w, (r + i) * B + b, r + i < last, sign, theta)
            e = tl.exp(-tl.abs(x))
            p = tl.where(there, tl.where(x >= 0, 1.0, e) / (1.0 + e), 0.0)
            q = tl.where(there, tl.where(x >= 0, e, 1.0) / (1.0 + e), 0.0)
            mean += tl.sum(p, 0)
            variance += tl.sum(p * q, 0)
        gap = mean - drawn
        near = tl.abs(gap) <= 0.25 + 0.25 * tl.sqrt(variance)
        right = tl.where(near | (gap <= 0), right, theta)
        left = tl.where(near | (gap > 0), left, theta)
        newton = theta - gap / tl.where(variance > 0, variance, 1.0)
        inside = (variance > 0) & (left < newton) & (newton < right)
        theta = tl.where(near, theta, tl.where(inside, newton, 0.5 * (left + right)))
        rounds = tl.where(near, 200, rounds + 1)
    if certain:
        filled = tl.where(d == n, weight, 0.0)
        for r in range(first, last, ROWS):
            at = (r + i) * B + b
            there = tl.load(w + at, mask=r + i < last, other=0.0) > 0
            tl.store(out + at, tl.where(there, filled, 0.0), mask=r + i < last)
        tl.store(loss + s.to(tl.int64) * B + b, 0.0)
    else:
        last_state = drawn.to(tl.int32)
        f = tl.where(k == 0, 1.0, 0.0).to(tl.float64)
        value = zero
        for r in range(first, last):
            there, x = _tilted(eta, w, r * B + b, True, sign, theta)
            tl.store(states + ((r - row0) * B + b) * K + k, f)
            e = tl.exp(-tl.abs(x))
            p = tl.where(x >= 0, 1.0, e) / (1.0 + e)
            q = tl.where(x >= 0, e, 1.0) / (1.0 + e)
            shifted = tl.where(k > 0, tl.gather(f, tl.maximum(k - 1, 0), 0), 0.0)
            f = tl.where(there, q * f + p * shifted, f)
            chosen = (tl.load(case + r) > 0) != flip
            t = tl.where(chosen, -x, x)
            value += tl.where(there, tl.log(1.0 + e) + tl.maximum(t, 0.0), 0.0)
        total = tl.sum(tl.where(k == last_state, f, 0.0), 0)
        tl.store(loss + s.to(tl.int64) * B + b, weight * (value + tl.log(total)))
        tl.debug_barrier()
        g = tl.where(k == last_state, 1.0, 0.0).to(tl.float64)
        for step in range(0, last - first):
            r = last - 1 - step
            there, x = _tilted(eta, w, r * B + b, True, sign, theta)
            e = tl.exp(-tl.abs(x))
            p = tl.where(x >= 0, 1.0, e) / (1.0 + e)
            q = tl.where(x >= 0, e, 1.0) / (1.0 + e)
            before = tl.load(states + ((r - row0) * B + b) * K + k)
            above = tl.where(k < K - 1, tl.gather(g, tl.minimum(k + 1, K - 1), 0), 0.0)
            share = p * tl.sum(before * above, 0) / total
            share = tl.where(flip, 1.0 - share, share)
            tl.store(out + r * B + b, tl.where(there, weight * share, 0.0))
            g = tl.where(there, q * g + p * above, g)


def _slabs(pointers: torch.Tensor, states: int) -> list[tuple[int, int]]:
    """Divide sets so that the rows of each part need at most `STATES` states of a forward pass."""
    limit, out, s0 = max(1, STATES // max(1, states)), [], 0
    while s0 < len(pointers) - 1:
        rows = pointers[s0 + 1 :] - pointers[s0]
        s1 = s0 + max(1, int((rows <= limit).sum()))
        out.append((s0, s1))
        s0 = s1
    return out


class MatchedSets:
    """The sets of an exact conditional model.

    Parameters
    ----------
    case : (n,) tensor of the host
        One for cases and zero for others.
    pointers : (S + 1,) int64 tensor of the host
        Boundaries of the sets.

    Attributes
    ----------
    most : int
        Largest number of cases, or of others where these are fewer, in any set.
    """

    def __init__(self, case: torch.Tensor, pointers: torch.Tensor, device: torch.device) -> None:
        self.boundaries = pointers
        self.case, self.pointers = case.to(device, torch.float64), pointers.to(device)
        size = pointers.diff()
        cases = torch.segment_reduce(case.to(torch.float64), "sum", lengths=size, unsafe=True)
        self.most = int(torch.minimum(cases, size // 2).amax()) if len(size) else 0

    def __len__(self) -> int:
        """Return the number of sets."""
        return len(self.boundaries) - 1


def conditional_with_triton(
    eta: torch.Tensor, w: torch.Tensor, sets: MatchedSets
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the results of `conditional` by the kernel, for some sets at a time."""
    B, K = eta.shape[1], next_power_of_two(sets.most + 1)
    eta, w = eta.contiguous(), w.expand_as(eta).contiguous()
    loss = torch.zeros((len(sets), B), dtype=torch.float64, device=eta.device)
    out = torch.zeros_like(eta)
    for s0, s1 in _slabs(sets.boundaries, K * B):
        row0 = int(sets.boundaries[s0])
        count = (int(sets.boundaries[s1]) - row0) * B * K
        states = torch.empty(max(count, 1), dtype=torch.float64, device=eta.device)
        launch(
            _conditional, (s1 - s0, B), eta, w, sets.case, sets.pointers, loss, out, states, s0,
            row0, B, K=K, ROWS=ROWS,
        )  # fmt: skip
    return loss, out


def conditional_twin(
    eta: torch.Tensor, w: torch.Tensor, sets: MatchedSets
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the results of `conditional` for all sets side by side, (sets, rows, B)."""
    loss = torch.zeros((len(sets), eta.shape[1]), dtype=torch.float64, device=eta.device)
    out = torch.zeros_like(eta)
    for s0, s1 in _slabs(sets.boundaries, 8 * eta.shape[1] * (sets.most + 1)):
        most = int(sets.boundaries[s0 : s1 + 1].diff().amax())
        i = torch.arange(most, device=eta.device)
        first = sets.pointers[s0:s1, None]
        inside = i < sets.pointers[s0 : s1 + 1].diff()[:, None]
        at = torch.where(inside, first + i, 0)
        there = inside[:, :, None] & (w[at] > 0)
        chosen = there & (sets.case[at] > 0)[:, :, None]
        weight = torch.where(there, w[at], 0.0).amax(1) if most else loss[s0:s1]
        value, share = _padded(torch.where(there, eta[at], 0.0), there, chosen)
        loss[s0:s1] = weight * value
        out[at[inside]] = torch.where(there, weight[:, None] * share, 0.0)[inside]
    return loss, out


def _padded(
    x: torch.Tensor, there: torch.Tensor, chosen: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute losses (S, B) and inclusion probabilities (S, rows, B) of padded sets."""
    n, d = there.sum(1), chosen.sum(1)
    flip = 2 * d > n
    drawn = torch.where(flip, n - d, d)
    x = torch.where(flip[:, None], -x, x)
    chosen = chosen ^ flip[:, None]
    x = x + _tilt(x, there, n, drawn)[:, None]
    p = torch.where(there, torch.sigmoid(x), 0.0)
    q = torch.where(there, torch.sigmoid(-x), 1.0)
    k = torch.arange(int(drawn.amax()) + 1, device=x.device)
    f = (k == 0).to(x.dtype).expand(*drawn.shape, -1)
    passed = []
    for i in range(x.shape[1]):
        passed.append(f)
        shifted = torch.nn.functional.pad(f[..., :-1], (1, 0))
        f = q[:, i, :, None] * f + p[:, i, :, None] * shifted
    g = (k == drawn[..., None]).to(x.dtype)
    total = (f * g).sum(-1)
    share = torch.empty_like(x)
    for i in reversed(range(x.shape[1])):
        above = torch.nn.functional.pad(g[..., 1:], (0, 1))
        share[:, i] = p[:, i] * (passed[i] * above).sum(-1) / total
        g = q[:, i, :, None] * g + p[:, i, :, None] * above
    t = torch.where(chosen, -x, x)
    logs = torch.log1p(torch.exp(-t.abs())) + t.clamp_min(0.0)
    value = torch.where(there, logs, 0.0).sum(1) + torch.log(total)
    certain = (d == 0) | (d == n)
    share = torch.where(flip[:, None], 1.0 - share, share)
    share = torch.where(certain[:, None], (d == n)[:, None].to(x.dtype), share)
    return torch.where(certain, 0.0, value), share


def _tilt(x: torch.Tensor, there: torch.Tensor, n: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    """Find θ (S, B) by Newton's method in a bracket, so that Σ p is near d."""
    certain = (d == 0) | (d == n)
    d, n = torch.where(certain, 1, d), torch.where(certain, 2, n)
    logit = torch.log(d) - torch.log(n - d)
    left = logit - torch.where(there, x, -torch.inf).amax(1)
    right = logit - torch.where(there, x, torch.inf).amin(1)
    middle = torch.where(there, x, 0.0).sum(1) / n
    theta = torch.where(right - left > 8.0, 0.5 * (left + right), logit - middle)
    theta = torch.where(certain, 0.0, theta)
    for _ in range(200):
        p = torch.where(there, torch.sigmoid(x + theta[:, None]), 0.0)
        q = torch.where(there, torch.sigmoid(-x - theta[:, None]), 0.0)
        gap, variance = p.sum(1) - d, (p * q).sum(1)
        near = certain | (gap.abs() <= 0.25 + 0.25 * variance.sqrt())
        if near.all():
            break
        right = torch.where(near | (gap <= 0), right, theta)
        left = torch.where(near | (gap > 0), left, theta)
        newton = theta - gap / torch.where(variance > 0, variance, 1.0)
        inside = (variance > 0) & (left < newton) & (newton < right)
        step = torch.where(inside, newton, 0.5 * (left + right))
        theta = torch.where(near, theta, step)
    return theta


def conditional(
    eta: torch.Tensor, w: torch.Tensor, sets: MatchedSets
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the loss of each set, (S, B), and weight × inclusion probability, (n, B).

    ``eta`` and ``w`` are (n, B). Rows of weight zero are absent; the other weights of a set are
    equal.
    """
    compute = conditional_with_triton if use_triton(eta) else conditional_twin
    return compute(eta, w, sets)
