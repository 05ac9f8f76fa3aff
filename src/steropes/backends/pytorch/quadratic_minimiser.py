"""Minimisation of the replicates' quadratic models on a device, by products with G alone.

The models are  g'(y − y₀) + ½ (y − y₀)'(G + low)(y − y₀) + Σ l1 |y| + ½ Σ l2 y².  Each round takes
a Newton step on every replicate's support, solved roughly by conjugate gradients with the diagonal
as preconditioner, in which coefficients stop where they would change sign, and then proximal
gradient steps in the metric of the diagonal (Lee, Sun and Saunders 2014; Wright, Nowak and
Figueiredo 2009). Each step is shortened to where the model is least along it, which takes no
further product, as a model is quadratic apart from its ℓ1 terms.
Coordinate descent would read G one row at a time; here all replicates share each reading of G.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from .device_array import DeviceArray
from .host_device_transfers import download, upload
from .kernels.conjugate_gradient_updates import Iterate, model_product, scaled, update

__all__ = [
    "DenseProducts",
    "MinimiserPolicy",
    "ModelProducts",
    "OperatorProducts",
    "QuadraticMinimiser",
]


@dataclass(frozen=True)
class MinimiserPolicy:
    """Tuning parameters of the minimiser.

    Attributes
    ----------
    max_rounds : int
        Most rounds. The solver continues from any point.
    first_iterations, max_iterations : int
        Conjugate gradient iterations of a Newton step, which double after each step that changes
        no sign. More are in vain as long as signs change: with 4, 5 and 6 iterations throughout, 13
        models of a claims-like cross-validation took 518, 664 and 756 products, and 463 with this.
    residual : float
        Relative residual at which a Newton step has fewer iterations.
    entering_share : float
        Share of a replicate's largest violation from which a zero coefficient joins its support.
    proximal_steps : int
        Proximal gradient steps of a round.
    first_length : float
        Length of the first of them, relative to the inverse of the diagonal. Later ones have the
        length that the curvature along the last one suggests (Barzilai and Borwein 1988).
    """

    max_rounds: int = 60
    first_iterations: int = 4
    max_iterations: int = 16
    residual: float = 0.05
    entering_share: float = 0.3
    proximal_steps: int = 2
    first_length: float = 0.5


class ModelProducts(ABC):
    """A symmetric positive semidefinite matrix on a device.

    Attributes
    ----------
    device : torch.device
    count : int
        Number of products so far.
    check_every : int
        Number of iterations after which the host reads whether more are needed. Reading waits
        for the device, about as long as a product with a stored matrix takes.
    """

    device: torch.device
    count: int
    check_every: int

    @abstractmethod
    def scaled_times(
        self, x: torch.Tensor, keep: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Multiply the matrix by x (k, B), whose entries are zero where ``keep`` (k,) is false.

        The products are those of the first result (k, B) and the second one (B,).
        """

    def times(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply the matrix by x (k, B)."""
        raw, size = self.scaled_times(x)
        return raw * size


class DenseProducts(ModelProducts):
    """Products with a matrix G that is stored on the device.

    Parameters
    ----------
    G : (k, k) tensor
        In bfloat16, single or double precision. It is used as it is, without a copy.
    """

    check_every = 4

    def __init__(self, G: torch.Tensor) -> None:
        self.G, self.device, self.count = G, G.device, 0

    @classmethod
    def of(
        cls, G: NDArray | torch.Tensor, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> DenseProducts:
        """Store a matrix of the host or the device in a given precision."""
        here = G if isinstance(G, torch.Tensor) else upload(G, device)
        return cls(here.to(dtype))

    def scaled_times(
        self, x: torch.Tensor, keep: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Multiply G by x (k, B); see `ModelProducts.scaled_times`.

        Vectors are scaled to largest entries of one, so that their precision can be G's. For a G
        in bfloat16 they are split into three parts of that precision, which together have 24 bits;
        sums are in single precision.
        """
        self.count += 1
        if self.G.dtype != torch.bfloat16:
            size, z = scaled(x, keep, self.G.dtype)
            return self.G @ z, size
        size, z = scaled(x, keep, torch.float64)
        parts = []
        for _ in range(3):
            parts.append(z.to(torch.bfloat16))
            z = z - parts[-1].to(torch.float64)
        split = torch.cat(parts, 1)
        if self.G.is_cuda:
            out = torch.mm(self.G, split, out_dtype=torch.float32)
        else:
            out = self.G.float() @ split.float()
        return out.to(torch.float64).reshape(len(x), 3, -1).sum(1), size


class OperatorProducts(ModelProducts):
    """Products with a matrix that is known only by them.

    Parameters
    ----------
    multiply : callable
        Multiplies the matrix by an array (k, B) on the device.
    device : torch.device
    """

    check_every = 1

    def __init__(
        self, multiply: Callable[[DeviceArray], DeviceArray], device: torch.device
    ) -> None:
        self._multiply, self.device, self.count = multiply, device, 0

    def scaled_times(
        self, x: torch.Tensor, keep: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Multiply the matrix by x (k, B), with scales of one."""
        self.count += 1
        z = x if keep is None else torch.where(keep[:, None], x, 0.0)
        return self._multiply(DeviceArray(z)).tensor, x.new_ones(x.shape[1])


class _Models:
    """Models of B replicates on the device; see the module for the symbols."""

    def __init__(
        self, products: ModelProducts, diagonal: NDArray, f: NDArray, Y: NDArray,
        arrays: dict[str, NDArray],
    ) -> None:  # fmt: skip
        def send(x: NDArray) -> torch.Tensor:
            return upload(np.asarray(x, np.float64), products.device)

        self.products = products
        self.g, self.y0, self.l1, self.l2, self.unit, self.tolerance, U, self.c = (
            send(arrays[x]) for x in ("g", "y", "l1", "l2", "unit", "tolerance", "U", "c")
        )
        self.keep, self.Y = None, None
        if len(f):
            kept = np.ones(len(diagonal), bool)
            kept[f] = False
            # Eliminated coordinates have no part in Y'Y.
            self.keep, self.Y = upload(kept, products.device), send(np.where(kept, Y, 0.0))
            self.minus_Y = -self.Y
        self.h = send(diagonal)[:, None] + self.l2
        if len(U):
            self.h = self.h + torch.einsum("mb,mkb->kb", self.c, U**2)
        self.U = U.permute(2, 0, 1).contiguous()  # (B, M, k), as products by replicate read it
        self.moves, self.penalised = self.h > 0, self.l1 > 0
        self.inverse = torch.where(self.moves, 1.0 / torch.where(self.moves, self.h, 1.0), 0.0)
        self.start = self.g + self.l2 * self.y0  # slopes at y₀

    def low(self, x: torch.Tensor) -> torch.Tensor | None:
        """Multiply the terms of low rank by x (k, B), if there are any."""
        out = None
        if self.Y is not None:
            out = self.minus_Y.T @ (self.Y @ x)
        if self.U.shape[1]:
            inner = self.c.T[:, None] * torch.bmm(x.T[:, None], self.U.transpose(1, 2))
            part = torch.bmm(inner, self.U)[:, 0].T
            out = part if out is None else out + part
        return out

    def times(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply the models' matrices, with l2, by x (k, B)."""
        raw, size = self.products.scaled_times(x, self.keep)
        return model_product(raw, size, self.low(x), self.l2, self.keep, x)

    def first_step(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Minimise over each eliminated coordinate, whatever the tolerance.

        A small error of an intercept violates the conditions of all columns that were not
        eliminated. Were it left, a step of zero would change nothing for the solver.

        Returns
        -------
        D, AD : (k, B) tensors
            The step and its product with the models' matrices.
        """
        zero = torch.zeros_like(self.y0)
        if self.keep is None:
            return zero, zero
        D = torch.where(self.keep[:, None], zero, -self.inverse * self.start)
        ones = torch.ones_like(self.tolerance)
        return D, model_product(zero, ones, self.low(D), self.l2, self.keep, D)

    def violation(self, s: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Compute the violations of the optimality conditions in units, (k, B)."""
        away = (s + self.l1 * torch.sign(y)).abs()
        v = torch.where(y != 0, away, (s.abs() - self.l1).clamp_min(0.0))
        return torch.where(self.moves, v / self.unit, 0.0)

    def towards(
        self, D: torch.Tensor, AD: torch.Tensor, s: torch.Tensor, to: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Move from y₀ + D towards other points as far as the models decrease, at most to them.

        The ℓ1 terms, which are convex, are bounded by their chords.

        Parameters
        ----------
        D, AD, s : (k, B) tensors
            Steps, their products with the models' matrices, and slopes.
        to : (k, B) tensor

        Returns
        -------
        D, AD : (k, B) tensors
            The new steps and their products.
        inverse : (B,) tensor
            Inverse curvature along the direction, relative to the diagonal; zero if there is none.
        """
        y, end = self.y0 + D, to - self.y0
        d = end - D
        Ad = self.times(d)
        curvature = (d * Ad).sum(0)
        slope = (s * d + self.l1 * (to.abs() - y.abs())).sum(0)
        curved = curvature > 0
        positive = torch.where(curved, curvature, 1.0)
        t = torch.where(curved, -slope / positive, torch.where(slope < 0, 1.0, 0.0)).clamp(0.0, 1.0)
        D, AD = torch.where(t == 1, end, D + t * d), AD + t * Ad
        return D, AD, torch.where(curved, (d * d * self.h).sum(0) / positive, 0.0)


class QuadraticMinimiser:
    """Minimises the models of several replicates with one matrix.

    Parameters
    ----------
    products : ModelProducts
    policy : MinimiserPolicy, optional
    """

    def __init__(self, products: ModelProducts, policy: MinimiserPolicy | None = None) -> None:
        self.products = products
        self.policy = MinimiserPolicy() if policy is None else policy

    def minimise(
        self, diagonal: NDArray, f: NDArray, Y: NDArray, *, g: NDArray, y: NDArray, l1: NDArray,
        l2: NDArray, unit: NDArray, tolerance: NDArray, U: NDArray, c: NDArray,
    ) -> NDArray:  # fmt: skip
        """Return y − y₀ at the minimum, or where further rounds are not worthwhile, (k, B).

        Parameters
        ----------
        diagonal, f, Y
            Of the reduced matrix, in which G_rr − Y'Y and the identity of the eliminated
            coordinates f take the place of G.
        g, y, l1, l2, unit : (k, B) arrays
            Gradients at y₀, y₀, penalties, and one unit of violation.
        tolerance : (B,) array
            In units.
        U, c : (M, k, B) and (M, B) arrays
            Low-rank terms Σ c u u' of each replicate.
        """
        arrays = {
            "g": g, "y": y, "l1": l1, "l2": l2, "unit": unit, "tolerance": tolerance, "U": U,
            "c": c,
        }  # fmt: skip
        m, policy = _Models(self.products, diagonal, f, Y, arrays), self.policy
        D, AD = m.first_step()
        length = torch.full_like(m.tolerance, policy.first_length)
        iterations = policy.first_iterations
        crossed = torch.ones_like(m.tolerance, dtype=torch.bool)
        for _ in range(policy.max_rounds):
            s = m.start + AD
            violation = m.violation(s, m.y0 + D)
            live = violation.amax(0) > m.tolerance
            any_live, any_crossed = torch.stack([live.any(), crossed.any()]).tolist()
            if not any_live:
                break
            longer = min(2 * iterations, policy.max_iterations)
            iterations = policy.first_iterations if any_crossed else longer
            D, AD, crossed = self._newton(m, D, AD, s, violation, live, iterations)
            for _ in range(policy.proximal_steps):
                D, AD, length = self._proximal(m, D, AD, live, length)
        return download(D)

    def support_step(
        self, diagonal: NDArray, f: NDArray, Y: NDArray, *, residual: float, **arrays: NDArray
    ) -> NDArray:
        """Return Newton steps for the signs of y, where penalised zeros stay, (k, B).

        Parameters are those of `minimise`, and ``residual`` is the relative residual of the
        systems.
        """
        m = _Models(self.products, diagonal, f, Y, arrays)
        support = ((m.y0 != 0) | (m.l1 == 0)) & m.moves
        slope = torch.where(support, -(m.start + m.l1 * torch.sign(m.y0)), 0.0)
        iterations = self.policy.max_iterations
        return download(self._conjugate_gradients(m, support, slope, residual, iterations))

    def _newton(
        self, m: _Models, D: torch.Tensor, AD: torch.Tensor, s: torch.Tensor,
        violation: torch.Tensor, live: torch.Tensor, iterations: int,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
        """Take a Newton step on the supports, whose coefficients stop where they change sign.

        Returns the point, its product, and whether any coefficient stopped.
        """
        y, penalised = m.y0 + D, m.penalised
        new = torch.where((y == 0) & penalised, violation, 0.0)
        least = torch.maximum(self.policy.entering_share * new.amax(0), m.tolerance)
        support = ((y != 0) | ~penalised | (new > least)) & live & m.moves
        sign = torch.where(y != 0, torch.sign(y), -torch.sign(s))
        slope = torch.where(support, -(s + m.l1 * sign), 0.0)
        to = y + self._conjugate_gradients(m, support, slope, self.policy.residual, iterations)
        crossing = penalised & support & (sign * to < 0)
        to = torch.where(crossing, 0.0, to)
        D, AD, _ = m.towards(D, AD, s, to)
        return D, AD, crossing.any()

    def _conjugate_gradients(
        self, m: _Models, support: torch.Tensor, residual: torch.Tensor, relative: float,
        iterations: int,
    ) -> torch.Tensor:  # fmt: skip
        """Solve for steps on the supports, (k, B), with the diagonal as preconditioner.

        Residuals are changed in place.
        """
        q = m.inverse * residual
        rz = (residual * q).sum(0)
        state = Iterate(torch.zeros_like(q), q, residual, rz, rz * relative**2)
        for i in range(1, iterations + 1):
            raw, size = m.products.scaled_times(q, m.keep)
            update(raw, size, m.low(q), m.l2, m.keep, support, m.inverse, state)
            look = i < iterations and i % m.products.check_every == 0
            if look and not bool((rz > state.aim).any()):
                break
        return state.p

    def _proximal(
        self, m: _Models, D: torch.Tensor, AD: torch.Tensor, live: torch.Tensor,
        length: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
        """Take a proximal gradient step, by which coefficients become zero or leave zero.

        Returns the point, its product, and the length of the next step.
        """
        s, rate = m.start + AD, length * m.inverse
        y = m.y0 + D
        to = y - s * rate
        to = torch.sign(to) * (to.abs() - m.l1 * rate).clamp_min(0.0)
        D, AD, suggested = m.towards(D, AD, s, torch.where(live & m.moves, to, y))
        return D, AD, torch.where(suggested > 0, suggested, length)
