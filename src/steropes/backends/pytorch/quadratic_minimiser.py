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

from ..backend_interface import Array
from .device_array import DeviceArray, in_double, like
from .host_device_transfers import upload
from .kernels.conjugate_gradient_updates import Iterate, model_product, scaled, update
from .kernels.quadratic_model_steps import move

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
        arrays: dict[str, Array],
    ) -> None:  # fmt: skip
        def send(x: Array) -> torch.Tensor:
            return in_double(x, products.device)

        self.products = products
        g, self.y0, self.l1, self.l2, unit, self.tolerance, U, c = (
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
            self.h = self.h + torch.einsum("mb,mkb->kb", c, U**2)
        self.U = U.permute(2, 0, 1).contiguous()  # (B, M, k), as products by replicate read it
        self.cU = c.T[:, :, None] * self.U
        moves = self.h > 0
        self.inverse = torch.where(moves, 1.0 / torch.where(moves, self.h, 1.0), 0.0)
        self.per_unit = torch.where(moves, 1.0 / unit, 0.0)
        self.free = self.l1 == 0
        self.start = torch.addcmul(g, self.l2, self.y0)  # slopes at y₀

    def low(self, x: torch.Tensor) -> torch.Tensor | None:
        """Multiply the terms of low rank by x (k, B), if there are any."""
        out = None
        if self.Y is not None:
            out = self.minus_Y.T @ (self.Y @ x)
        if self.U.shape[1]:
            part = torch.bmm(torch.bmm(x.T[:, None], self.U.transpose(1, 2)), self.cU)[:, 0].T
            out = part if out is None else out + part
        return out

    def first_point(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Minimise over each eliminated coordinate, whatever the tolerance.

        A small error of an intercept violates the conditions of all columns that were not
        eliminated. Were it left, a step of zero would change nothing for the solver.

        Returns
        -------
        y, s : (k, B) tensors
            The point and its slopes.
        """
        if self.keep is None:
            return self.y0.clone(), self.start.clone()
        d = torch.where(self.keep[:, None], 0.0, -self.inverse * self.start)
        zero, ones = torch.zeros_like(d), torch.ones_like(self.tolerance)
        product = model_product(zero, ones, self.low(d), self.l2, self.keep, d)
        return self.y0 + d, self.start + product

    def signed(
        self, y: torch.Tensor, s: torch.Tensor, nonzero: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return signs of coefficients (k, B), and slopes that include the ℓ1 terms with these.

        Zeros have the sign to which their slope leads.
        """
        sign = torch.sign(torch.where(nonzero, y, -s))
        return sign, torch.addcmul(s, self.l1, sign)

    def violation(
        self, nonzero: torch.Tensor, sign: torch.Tensor, slope: torch.Tensor
    ) -> torch.Tensor:
        """Compute the violations of the optimality conditions in units, (k, B); see `signed`."""
        return torch.where(nonzero, slope, (sign * slope).clamp_max(0.0)).abs() * self.per_unit

    def move_towards(self, y: torch.Tensor, s: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
        """Move points y (k, B) with slopes s towards others in place; see `move`."""
        d = to - y
        raw, size = self.products.scaled_times(d, self.keep)
        return move(raw, size, self.low(d), self.l2, self.keep, d, to, self.l1, self.h, y, s)


class QuadraticMinimiser:
    """Minimises the models of several replicates with one matrix."""

    def __init__(self, products: ModelProducts, policy: MinimiserPolicy | None = None) -> None:
        self.products = products
        self.policy = MinimiserPolicy() if policy is None else policy

    def minimise(
        self, diagonal: NDArray, f: NDArray, Y: NDArray, *, g: Array, y: Array, l1: Array,
        l2: Array, unit: Array, tolerance: NDArray, U: Array, c: NDArray,
    ) -> Array:  # fmt: skip
        """Return y − y₀ at the minimum, or where further rounds are not worthwhile, (k, B).

        Parameters
        ----------
        diagonal, f, Y
            Of the reduced matrix, in which G_rr − Y'Y and the identity of the eliminated
            coordinates f take the place of G.
        g, y, l1, l2, unit : (k, B) arrays
            Gradients at y₀, y₀, penalties, and one unit of violation. The result is on the device
            if g is.
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
        point, s = m.first_point()
        length = torch.full_like(m.tolerance, policy.first_length)
        iterations = policy.first_iterations
        crossed = torch.ones_like(m.tolerance, dtype=torch.bool)
        for _ in range(policy.max_rounds):
            nonzero = point != 0
            sign, slope = m.signed(point, s, nonzero)
            violation = m.violation(nonzero, sign, slope)
            live = violation.amax(0) > m.tolerance
            any_live, any_crossed = torch.stack([live.any(), crossed.any()]).tolist()
            if not any_live:
                break
            longer = min(2 * iterations, policy.max_iterations)
            iterations = policy.first_iterations if any_crossed else longer
            support = self._support(m, nonzero | m.free, violation, live)
            crossed = self._newton(m, point, s, sign, slope, support, iterations)
            length = length * live  # Replicates at their minimum stay there.
            for _ in range(policy.proximal_steps):
                length = self._proximal(m, point, s, length)
        return like(g, point - m.y0)

    def support_step(
        self, diagonal: NDArray, f: NDArray, Y: NDArray, *, residual: float, **arrays: Array
    ) -> Array:
        """Return Newton steps for the signs of y, where penalised zeros stay, (k, B).

        Parameters are those of `minimise`, and ``residual`` is the relative residual of the
        systems.
        """
        m = _Models(self.products, diagonal, f, Y, arrays)
        support = (m.y0 != 0) | m.free
        slope = torch.where(support, -(m.start + m.l1 * torch.sign(m.y0)), 0.0)
        iterations = self.policy.max_iterations
        step = self._conjugate_gradients(m, support, slope, residual, iterations)
        return like(arrays["g"], step)

    def _support(
        self, m: _Models, inside: torch.Tensor, violation: torch.Tensor, live: torch.Tensor
    ) -> torch.Tensor:
        """Add zero coefficients with large violations to those that are ``inside``, (k, B)."""
        new = violation.masked_fill(inside, 0.0)
        least = torch.maximum(self.policy.entering_share * new.amax(0), m.tolerance)
        return (inside | (new > least)) & live

    def _newton(
        self, m: _Models, y: torch.Tensor, s: torch.Tensor, sign: torch.Tensor,
        slope: torch.Tensor, support: torch.Tensor, iterations: int,
    ) -> torch.Tensor:  # fmt: skip
        """Take a Newton step on the supports, whose coefficients stop where they change sign.

        Points y and slopes s change in place. Returns whether coefficients stopped, (k, B).
        """
        residual = torch.where(support, -slope, 0.0)
        to = y + self._conjugate_gradients(m, support, residual, self.policy.residual, iterations)
        crossing = (sign * to < 0) & ~m.free
        m.move_towards(y, s, to.masked_fill_(crossing, 0.0))
        return crossing

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
        self, m: _Models, y: torch.Tensor, s: torch.Tensor, length: torch.Tensor
    ) -> torch.Tensor:
        """Take a proximal gradient step, by which coefficients become zero or leave zero.

        Points y and slopes s change in place. Returns the length of the next step.
        """
        rate = length * m.inverse
        to, least = torch.addcmul(y, s, rate, value=-1.0), m.l1 * rate
        to -= to.clamp(-least, least)
        suggested = m.move_towards(y, s, to)
        return torch.where(suggested > 0, suggested, length)
