"""PyTorch's CPU device as if its memory were not the host's.

A GPU cannot combine its tensors with those of the host, and NumPy cannot read them. PyTorch's CPU
device can do both, so that tests on it would not notice a tensor that was created without a device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

__all__ = ["SeparateMemories"]

HOST, DEVICE = "host", "device"


def _tensors(values: Iterable[object]) -> list[torch.Tensor]:
    """Return the tensors of arguments or results, and those in lists and tuples of them."""
    out: list[torch.Tensor] = []
    for x in values:
        if isinstance(x, torch.Tensor):
            out.append(x)
        elif isinstance(x, list | tuple):
            out += _tensors(x)
    return out


class SeparateMemories(TorchFunctionMode):
    """Raise if a tensor of the device meets one of the host, or is read without a transfer.

    A tensor belongs to the device if it was created with ``device=``, transferred to a device, or
    computed from such a tensor, and to the host if it comes from NumPy or was created without
    ``device=``. Tensors of a single number are free to meet others, as with a GPU.
    """

    def __enter__(self) -> SeparateMemories:
        self.from_numpy = torch.from_numpy  # not among the functions that PyTorch passes to modes
        torch.from_numpy = self._from_numpy
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        torch.from_numpy = self.from_numpy

    def _from_numpy(self, x: np.ndarray) -> torch.Tensor:
        out = self.from_numpy(x)
        out.place = HOST
        return out

    def __torch_function__(
        self, function: Callable[..., Any], types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        out = function(*args, **kwargs)
        if not isinstance(out, torch.Tensor | tuple | list | np.ndarray) or type(out) is torch.Size:
            return out
        inputs = _tensors((*args, *kwargs.values()))
        places = {getattr(x, "place", None) for x in inputs if x.ndim} - {None}
        name = getattr(function, "__name__", "")
        if name in ("to", "cpu") and any(out is x for x in inputs):
            out = out.detach()  # The tensor itself was returned, because no transfer was needed.
        to_device = kwargs.get("device") is not None or (
            name == "to" and any(isinstance(x, torch.device) for x in args)
        )
        if to_device:
            place = DEVICE
        elif name == "cpu" or not inputs:
            place = HOST
        elif len(places) > 1:
            raise RuntimeError(f"{name}: a tensor of the device meets one of the host.")
        elif isinstance(out, np.ndarray) and DEVICE in places:
            raise RuntimeError("A tensor of the device is read without a transfer to the host.")
        else:
            place = places.pop() if places else getattr(inputs[0], "place", None)
        for x in _tensors((out,)):
            x.place = place
        return out
