"""Inputs on which the Triton kernels are compared with their twins, on any device.

The tests run the same cases in Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch

from steropes.backends.pytorch.device_segment_sums import Segments, softmax_twin
from steropes.backends.pytorch.kernels import (
    conditional_likelihood_kernels as conditional_recursion,
)
from steropes.backends.pytorch.kernels import (
    conjugate_gradient_updates,
    logistic_losses,
    quadratic_model_steps,
    risk_set_sweeps,
)
from steropes.backends.pytorch.kernels import gram_matrix_kernels as gram_panels
from steropes.backends.pytorch.kernels import running_sum_kernels as chunked_scans
from steropes.backends.pytorch.kernels import segment_sum_kernels as segment_reductions
from steropes.backends.pytorch.kernels import sparse_product_kernels as gather_products

__all__ = ["KernelCase", "failures", "kernel_cases"]

Tensors = tuple[torch.Tensor, ...]


class KernelCase(NamedTuple):
    """A call of a kernel and of its twin with the same arguments."""

    name: str
    with_triton: Callable[[], Tensors]
    twin: Callable[[], Tensors]
    tolerance: float = 1e-12


def failures(case: KernelCase, repeats: int = 3) -> list[str]:
    """Describe how a kernel differs from its twin, or from itself in another run."""
    runs, expected = [case.with_triton() for _ in range(repeats)], case.twin()
    out = []
    for first, other in zip(runs[0], expected, strict=True):
        same = first.double() == other.double()
        gap = (first.double() - other.double()).abs() / (1.0 + other.double().abs())
        worst = float(torch.where(same, 0.0, gap).max()) if first.numel() else 0.0
        if not worst <= case.tolerance:
            out.append(f"{case.name}: differs from its twin by {worst:.1e}")
    for run in runs[1:]:
        if not all(
            torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(runs[0], run, strict=True)
        ):
            out.append(f"{case.name}: two runs differ")
    return out


class Draws:
    """Random tensors on a device; ``n`` is about the number of rows of each case."""

    def __init__(self, device: str, n: int, seed: int = 0) -> None:
        self.rng, self.device, self.n = np.random.default_rng(seed), device, n

    def send(self, x: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(x)).to(self.device)

    def normal(self, *shape: int) -> torch.Tensor:
        return self.send(self.rng.normal(size=shape))

    def weights(self, n: int, B: int) -> torch.Tensor:
        """Fold weights: a tenth of the rows is absent."""
        return self.send(np.where(self.rng.random((n, B)) < 0.1, 0.0, 1.0))

    def pointers(self, n: int, longest: int) -> np.ndarray:
        """Segments of up to ``longest`` rows, some of them empty."""
        sizes = self.rng.integers(0, longest + 1, 2 * n // longest + 2)
        ends = np.minimum(np.cumsum(sizes), n)
        return np.concatenate([[0], ends, [n]]).astype(np.int64)

    def lines(self, count: int, width: int, longest: int, kind: type) -> Tensors:
        """Sparse lines with increasing indices: starts, ends and indices."""
        sizes = np.minimum(self.rng.integers(0, longest + 1, count), width)
        at = [np.sort(self.rng.choice(width, s, replace=False)) for s in sizes]
        ends = np.cumsum(sizes)
        indices = np.concatenate(at).astype(kind)
        return self.send(ends - sizes), self.send(ends), self.send(indices)


def kernel_cases(device: str, n: int = 600, lanes: tuple[int, ...] = (1, 10)) -> list[KernelCase]:
    """Return the cases of all kernels, with about n rows each."""
    make = (
        _gathers,
        _scans,
        _sweeps,
        _segments,
        _panels,
        _recursions,
        _losses,
        _iterations,
        _moves,
    )
    return [case for i, f in enumerate(make) for B in lanes for case in f(Draws(device, n, i), B)]


def _gathers(draws: Draws, B: int) -> Iterator[KernelCase]:
    for kind, valued in ((np.int32, False), (np.uint16, True)):
        starts, ends, indices = draws.lines(draws.n // 8, draws.n, draws.n // 4, kind)
        data = draws.normal(len(indices)) if valued else draws.normal(0)
        args = starts, ends, indices, data, draws.normal(draws.n, B)
        yield KernelCase(
            f"gather, {B} lanes, {kind.__name__}{', values' if valued else ''}",
            lambda a=args: (gather_products.gather_with_triton(*a),),
            lambda a=args: (gather_products.gather_twin(*a),),
        )


def _scans(draws: Draws, B: int) -> Iterator[KernelCase]:
    for longest, reverse in ((draws.n // 2, False), (17, True)):
        pointers = draws.send(draws.pointers(draws.n, longest))
        args = draws.normal(draws.n, B), chunked_scans.ScanLayout(pointers, draws.n, reverse)
        yield KernelCase(
            f"scan, {B} lanes, segments up to {longest}{', reversed' if reverse else ''}",
            lambda a=args: (chunked_scans.scan_with_triton(*a),),
            lambda a=args: (chunked_scans.scan_twin(*a),),
        )


def _sweeps(draws: Draws, B: int) -> Iterator[KernelCase]:
    n, rng = draws.n, draws.rng
    strata = chunked_scans.ScanLayout(draws.send(draws.pointers(n, n // 2)), n)
    event = rng.random(n) < 0.2
    slot = np.where(event, np.cumsum(event) - 1, -1).astype(np.int32)
    eta, w, m = draws.normal(n, B), draws.weights(n, B), int(event.sum())
    happened = draws.send(event.astype(np.uint8))
    args = eta, w, happened, draws.send(slot), m, strata
    yield KernelCase(
        f"sums over risk sets, {B} lanes",
        lambda a=args: risk_set_sweeps.rate_sums_with_triton(*a),
        lambda a=args: risk_set_sweeps.rate_sums_twin(*a),
    )
    place = draws.send(rng.integers(0, m + 1, n).astype(np.int32))
    by_lane = eta.T.contiguous().T  # not in the order in which the kernel writes
    more = by_lane, w, happened, draws.normal(m + 1, B), place
    yield KernelCase(
        f"gradient of Cox's likelihood, {B} lanes",
        lambda a=more: (risk_set_sweeps.gradient_with_triton(*a),),
        lambda a=more: (risk_set_sweeps.gradient_twin(*a),),
    )


def _segments(draws: Draws, B: int) -> Iterator[KernelCase]:
    n = draws.n
    edges = draws.pointers(n, 9)
    pointers, segments = draws.send(edges), Segments(edges, torch.device(draws.device))
    x, a, b = draws.normal(n, B), pointers[:-1].contiguous(), pointers[1:].contiguous()
    for largest in (False, True):
        args = x, a, b, largest
        yield KernelCase(
            f"segment {'maxima' if largest else 'sums'}, {B} lanes",
            lambda a=args: (segment_reductions.reduce_with_triton(*a),),
            lambda a=args: (segment_reductions.reduce_twin(*a),),
        )
    scale = draws.send(np.where(draws.rng.random((len(a), B)) < 0.2, 0.0, 2.0))
    weights = draws.weights(n, B)
    yield KernelCase(
        f"segment softmax, {B} lanes",
        lambda: segment_reductions.softmax_with_triton(x, weights, pointers, scale),
        lambda: softmax_twin(x, weights, segments, scale),
    )


def _panels(draws: Draws, B: int) -> Iterator[KernelCase]:
    width = 8 * B
    starts, ends, indices = draws.lines(draws.n, width, width // 2, np.uint16)
    v = draws.send(draws.rng.random(draws.n))
    for dtype, data in (
        (torch.bfloat16, draws.normal(0)), (torch.float64, draws.normal(len(indices))),
    ):  # fmt: skip
        args = starts, ends, indices, data, width, v, dtype
        yield KernelCase(
            f"panel of {width} columns, {str(dtype).removeprefix('torch.')}",
            lambda a=args: gram_panels.panel_with_triton(*a),
            lambda a=args: gram_panels.panel_twin(*a),
            # The interpreter truncates to bfloat16 where the twin and devices round.
            2.0**-8 if dtype == torch.bfloat16 else 0.0,
        )


def _recursions(draws: Draws, B: int) -> Iterator[KernelCase]:
    n = draws.n // 4
    pointers = draws.pointers(n, 23)
    case = torch.from_numpy((draws.rng.random(n) < 0.4).astype(np.float64))
    device = torch.device(draws.device)
    sets = conditional_recursion.MatchedSets(case, torch.from_numpy(pointers), device)
    args = 2.0 * draws.normal(n, B), draws.weights(n, B), sets
    yield KernelCase(
        f"conditional recursion, {B} lanes",
        lambda a=args: conditional_recursion.conditional_with_triton(*a),
        lambda a=args: conditional_recursion.conditional_twin(*a),
        1e-11,
    )


def _losses(draws: Draws, B: int) -> Iterator[KernelCase]:
    n = draws.n
    for shared in (False, True):
        y = draws.send(draws.rng.integers(0, 2, (n, 1 if shared else B)).astype(np.float64))
        args = 20.0 * draws.normal(n, B), draws.weights(n, 1 if shared else B), y
        yield KernelCase(
            f"losses of a logistic model, {B} lanes{', shared outcomes' if shared else ''}",
            lambda a=args: logistic_losses.logistic_losses_with_triton(*a),
            lambda a=args: logistic_losses.logistic_losses_twin(*a),
        )


def _iterations(draws: Draws, B: int) -> Iterator[KernelCase]:
    k, kernels = 5_000, conjugate_gradient_updates  # several blocks
    for low in (False, True):
        q = draws.normal(k, B) * draws.send(10.0 ** (np.arange(B) % 4))
        keep = draws.send(draws.rng.random(k) < 0.9) if low else None
        yield KernelCase(
            f"scaled vectors, {B} lanes{', some of whose entries are zero' if low else ''}",
            lambda a=(q, keep): kernels.scaled_with_triton(*a),
            lambda a=(q, keep): kernels.scaled_twin(*a),
        )
        support = draws.send(draws.rng.random((k, B)) < 0.5)
        # The second replicate has a negative curvature, and the third one has converged.
        size = draws.send(np.where(np.arange(B) == 1, -3.0, 3.0))
        rz = draws.send(np.where(np.arange(B) == 2, 0.01, 1.0) * k)
        terms = 0.1 * draws.normal(k, B) if low else None
        model = (q + 0.1 * draws.normal(k, B)).float(), size, terms, draws.weights(k, B)
        args = *model, keep, support, 0.5 * draws.weights(k, B)
        state = draws.normal(k, B), q, draws.normal(k, B), rz, draws.send(np.full(B, 0.1 * k))
        yield KernelCase(
            f"iteration of conjugate gradients, {B} lanes{', terms of low rank' if low else ''}",
            lambda a=args, s=state: _updated(kernels.update_with_triton, a, s),
            lambda a=args, s=state: _updated(kernels.update_twin, a, s),
        )


def _moves(draws: Draws, B: int) -> Iterator[KernelCase]:
    k, kernels = 5_000, quadratic_model_steps
    for low in (False, True):
        d, y = draws.normal(k, B), draws.normal(k, B)
        keep = draws.send(draws.rng.random(k) < 0.9) if low else None
        terms = 0.1 * draws.normal(k, B) if low else None
        # The second replicate has a negative curvature, and the third one moves all the way.
        size = draws.send(np.where(np.arange(B) == 1, -3.0, np.where(np.arange(B) == 2, 1e-3, 3.0)))
        model = (d + 0.1 * draws.normal(k, B)).float(), size, terms, 1e-3 * draws.weights(k, B)
        args = *model, keep, d, y + d, draws.weights(k, B), draws.weights(k, B)
        point = y, draws.normal(k, B) - d
        yield KernelCase(
            f"step of quadratic models, {B} lanes{', terms of low rank' if low else ''}",
            lambda a=args, x=point: _moved(kernels.move_with_triton, a, x),
            lambda a=args, x=point: _moved(kernels.move_twin, a, x),
        )


def _moved(move: Callable[..., torch.Tensor], arguments: Tensors, point: Tensors) -> Tensors:
    """Return a copy of a point after a step, and the inverse curvature."""
    y, s = (x.clone() for x in point)
    return y, s, move(*arguments, y, s)


def _updated(update: Callable[..., None], arguments: Tensors, state: Tensors) -> Tensors:
    """Return the state after an update, which changes a copy of it."""
    own = conjugate_gradient_updates.Iterate(*(x.clone() for x in state))
    update(*arguments, own)
    return own
