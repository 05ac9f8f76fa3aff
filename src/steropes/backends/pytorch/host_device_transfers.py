"""Transfers between the host and a device, with counts of what is moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["TRANSFERS", "Transfers", "download", "upload"]


@dataclass
class Transfers:
    """Numbers of transfers and bytes since the start of the process.

    Attributes
    ----------
    uploads, downloads : int
        Number of arrays. Each download waits for the device.
    bytes_up, bytes_down : int
        Bytes of those arrays.
    """

    uploads: int = 0
    downloads: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


TRANSFERS = Transfers()


def upload(x: NDArray, device: torch.device) -> torch.Tensor:
    """Copy an array of the host to the device, also where both share memory."""
    x = np.ascontiguousarray(x) if x.ndim else np.array(x)
    if any(stride < 0 for stride in x.strides) or not x.flags.writeable:
        x = x.copy()
    TRANSFERS.uploads += 1
    TRANSFERS.bytes_up += x.nbytes
    return torch.from_numpy(x).to(device, copy=True)


def download(x: torch.Tensor) -> NDArray:
    """Copy a tensor to the host."""
    TRANSFERS.downloads += 1
    TRANSFERS.bytes_down += x.numel() * x.element_size()
    host: NDArray = x.detach().cpu().numpy()
    return host.copy() if x.device.type == "cpu" else host
