"""Ceilings of a device, and the backend's operations as shares of them."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import sparse

from steropes.backends import get_backend
from steropes.backends.cpu import NO_DATA, Lines
from steropes.backends.pytorch.quadratic_minimiser import DenseProducts

__all__ = ["ceilings", "operations"]


def seconds(run: Callable[[], Any], device: torch.device, least: float = 0.05) -> float:
    """Time of one run after a warm-up: the smallest mean of three series."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    run()
    wait()
    count, best = 1, np.inf
    for _ in range(3):
        while True:
            start = time.perf_counter()
            for _ in range(count):
                run()
            wait()
            passed = time.perf_counter() - start
            if passed >= least or count >= 1000:
                break
            count = min(1000, max(count + 1, int(count * 1.2 * least / max(passed, 1e-9))))
        best = min(best, passed / count)
    return float(best)


def ceilings(options: Namespace, say: Callable[..., None]) -> dict[str, Any]:
    """Measure bytes per second of copies and uploads, and operations per second of products."""
    small, device = options.small, get_backend(options.device, 1).device
    megabyte = 1 << 20
    out: dict[str, Any] = {"ok": True}
    for name, size in (("copy", 8 if small else 2048), ("L2", 1 if small else 8)):
        x = torch.ones(size * megabyte // 8, dtype=torch.float64, device=device)
        y = torch.empty_like(x)
        out[name] = 2 * x.numel() * 8 / seconds(lambda a=x, b=y: b.copy_(a), device)
    for name, dtype, k in (
        ("64-bit", torch.float64, 4096), ("32-bit", torch.float32, 8192),
        ("bfloat16", torch.bfloat16, 8192),
    ):  # fmt: skip
        k = 128 if small else k
        A = torch.ones((k, k), dtype=dtype, device=device)
        out[name] = 2 * k**3 / seconds(lambda A=A: A @ A, device)
    host = torch.ones((1 if small else 256) * megabyte // 8, dtype=torch.float64)
    if device.type == "cuda":
        host = host.pin_memory()
    out["upload"] = host.numel() * 8 / seconds(lambda: host.to(device, copy=True), device)
    return out


def operations(options: Namespace, say: Callable[..., None]) -> dict[str, Any]:
    """Time products with X, scans, the Gram matrix and products with G, at some lanes.

    Each is given with the share of a ceiling that its necessary traffic or arithmetic reaches.
    """
    top = options.records.get("ceilings", {})
    if not top.get("ok"):
        return {"ok": False, "error": "the ceilings have not been measured"}
    small, backend = options.small, get_backend(options.device, 1)
    device = backend.device
    n, p, share = (2_000, 50, 0.05) if small else (434_866, 4_000, 0.0289)
    rng = np.random.default_rng(0)
    X = sparse.random_array(
        (n, p), density=share, format="csr", rng=rng, data_sampler=lambda size: np.ones(size)
    )
    X.sort_indices()
    indptr = X.indptr.astype(np.int64)
    rows = backend.lines(Lines(indptr[:-1], indptr[1:], X.indices.astype(np.int32), NO_DATA, p))
    nnz = rows.nnz
    out: dict[str, Any] = {"ok": True}
    pointers = np.array([0, n])

    def add(name: str, run: Callable[[], Any], amount: float, ceiling: str) -> None:
        t = seconds(run, device)
        out[name] = {"seconds": t, "share": amount / t / top[ceiling], "of": ceiling}
        say(**out)

    for B in (1, 10, 100):
        D, R = (backend.asarray(rng.normal(size=(rows_, B))) for rows_ in (p, n))
        moved = 4 * nnz + 8 * n * B + 8 * p * B
        add(f"X D, {B} lanes", lambda D=D: backend.gather(rows, D), moved, "copy")
        add(f"X' R, {B} lanes", lambda R=R: backend.scatter(rows, R), moved, "copy")
        add(f"scan, {B} lanes", lambda R=R: backend.scan(R, pointers), 16 * n * B, "copy")
    v = backend.asarray(rng.random(n))
    for rough in (True, False):
        G = backend.xp.zeros((p, p))
        add(
            f"Gram matrix, {'rough' if rough else 'exact'}",
            lambda G=G, rough=rough: backend.gram(rows, v, G, 0, rough),
            2.0 * n * p * p, "bfloat16" if rough else "64-bit",
        )  # fmt: skip
    k = 50 if small else 6_000
    for dtype in (torch.float32, torch.bfloat16):
        products = DenseProducts(torch.ones((k, k), dtype=dtype, device=device))
        for B in (1, 10, 100):
            x = torch.ones((k, B), dtype=torch.float64, device=device)
            name = f"G x, {str(dtype).removeprefix('torch.')}, {B} lanes"
            size = products.G.element_size() * k * k
            add(name, lambda x=x, q=products: q.times(x), size, "copy")
    return out
