"""Counts of the work of a fit, and the split of its time, by functions around the solver's."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from importlib import import_module
from types import TracebackType
from typing import Any

import torch

from steropes.backends.pytorch.host_device_transfers import TRANSFERS

__all__ = ["COUNTED", "FitCosts"]

# Calls that are counted, under their names in the record: functions of steropes, as module:name.
COUNTED = {
    "solve.proximal_newton.newton_batch:Batch._step": "steps",
    "solve.proximal_newton.newton_batch:Batch._look": "looks at all columns",
    "solve.quasi_newton.shared_hessian:SharedHessian.compute": "Hessians",
    "solve.proximal_newton.hessian_recomputation:Hessians._own_model": "Hessians of one replicate",
    "solve.subproblem.quadratic_model:QuadraticModel.minimize": "models",
    "solve.subproblem.quadratic_model:QuadraticModel.on_support": "models",
    "backends.pytorch.quadratic_minimiser:QuadraticMinimiser._newton": "rounds",
    "backends.pytorch.quadratic_minimiser:DenseProducts.scaled_times": "products",
    "backends.pytorch.quadratic_minimiser:OperatorProducts.scaled_times": "products",
    "backends.pytorch.kernels.conjugate_gradient_updates:update": "iterations",
    "backends.pytorch.kernels.triton_or_pytorch_choice:launch": "Triton launches",
}
# Functions whose time is taken apart, without that of others in this table inside them.
PHASES = {
    "models.fitting.fit_steps:Estimator._read_design": "preparation",
    "models.fitting.fit_steps:Estimator._make_problem": "preparation",
    "models.fitting.fit_steps:refuse_separated": "checks of the fit",
    "models.fitting.fit_steps:Estimator._refuse_undetermined": "checks of the fit",
    "models.fitting.fit_steps:Estimator._refuse_weak_information": "checks of the fit",
    "backends.pytorch.host_device_transfers:upload": "upload",
    "solve.quasi_newton.shared_hessian:SharedHessian.compute": "Hessians",
    "solve.quasi_newton.shared_hessian:SharedHessian.follow": "Hessians",
    "solve.proximal_newton.hessian_recomputation:Hessians._own_model": "Hessians",
    "solve.proximal_newton.step_phases:minima": "minimisation",
    "solve.proximal_newton.step_phases:search": "evaluation",
    "solve.proximal_newton.step_phases:commit": "evaluation",
    "solve.proximal_newton.newton_batch:Batch._look": "evaluation",
    "solve.proximal_newton.newton_batch:Batch.solve": "other work of the solver",
    "fit.solver_problem:Problem.batch": "start of batches",
    "select.fold_fits_along_path:choose": "selection",
    "infer.bootstrap:fit_draws": "draws",
}


class FitCosts:
    """A context in which the work of fits is counted.

    Parameters
    ----------
    split : bool
        Whether to wait for the device at the ends of the phases and to measure their times, which
        makes fits slower.

    Attributes
    ----------
    counts, seconds : dict
    """

    def __init__(self, split: bool = False) -> None:
        self.split = split
        self.counts: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self._inside: list[str] = []
        self._since = 0.0
        self._undo: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> FitCosts:
        self._before, self._memory = replace(TRANSFERS), _allocations()
        for path in dict.fromkeys([*COUNTED, *PHASES]):
            self._wrap(path)
        self._put(
            torch.Tensor, "__bool__", self._counted(torch.Tensor.__bool__, "host reads")
        )  # Those of arrays are among the transfers.
        if self.split:
            self._enter("other")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        if self.split:
            self._leave()
        for owner, name, value in reversed(self._undo):
            setattr(owner, name, value)
        before, now = self._before, TRANSFERS
        self.counts["host reads"] += now.downloads - before.downloads
        self.counts["bytes up"] = now.bytes_up - before.bytes_up
        self.counts["bytes down"] = now.bytes_down - before.bytes_down
        # About one for each operation that is launched, since operations return new arrays.
        self.counts["allocations"] = _allocations() - self._memory

    def _wrap(self, path: str) -> None:
        """Replace a function of steropes wherever its name is bound."""
        module, _, name = path.partition(":")
        owner: Any = import_module(f"steropes.{module}")
        *outer, last = name.split(".")
        for part in outer:
            owner = getattr(owner, part)
        original = owner.__dict__[last]
        new = original
        if path in COUNTED:
            new = self._counted(new, COUNTED[path])
        if self.split and path in PHASES:
            new = self._timed(new, PHASES[path])
        if new is original:
            return
        modules = [m for key, m in list(sys.modules.items()) if key.startswith("steropes.")]
        owners = [owner] if outer else [m for m in modules if m.__dict__.get(last) is original]
        for each in owners:
            self._put(each, last, new)

    def _put(self, owner: Any, name: str, value: Any) -> None:
        self._undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def _counted(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        @wraps(function)
        def counted(*arguments: Any, **named: Any) -> Any:
            out = function(*arguments, **named)
            self.counts[name] += 1
            if name == "models":  # Those of all replicates, in a column for each.
                self.counts["models of replicates"] += out.shape[1]
                self.counts["models without a step"] += int((~out.any(axis=0)).sum())
            return out

        return counted

    def _timed(self, function: Callable[..., Any], phase: str) -> Callable[..., Any]:
        @wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            self._enter(phase)
            try:
                return function(*arguments, **named)
            finally:
                self._leave()

        return timed

    def _enter(self, phase: str) -> None:
        self._account()
        self._inside.append(phase)

    def _leave(self) -> None:
        self._account()
        self._inside.pop()

    def _account(self) -> None:
        """Add the time since the last change of the phase to the phase that ends or pauses."""
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self._inside:
            self.seconds[self._inside[-1]] += now - self._since
        self._since = now


def _allocations() -> int:
    """Return the number of arrays that PyTorch has allocated on the GPU."""
    if not torch.cuda.is_available():
        return 0
    return int(torch.cuda.memory_stats().get("allocation.all.allocated", 0))
