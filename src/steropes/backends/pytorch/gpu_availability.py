"""Whether PyTorch and a GPU are available, and the reason and remedy if not."""

from __future__ import annotations

import importlib.util

__all__ = ["available", "why_not"]

REMEDY = "With a GPU: pip install 'steropes[gpu]'; without one: device='cpu'."


def why_not(device: str) -> str:
    """Return the missing requirement of a device with its remedy; empty if it is available.

    Parameters
    ----------
    device : {"cuda", "torch-cpu"}
    """
    if importlib.util.find_spec("torch") is None:
        return f"device={device!r} needs PyTorch, which is not installed. {REMEDY}"
    try:
        import torch
    except Exception as error:  # such as a library of the driver that is missing
        return f"device={device!r} needs PyTorch, which cannot be imported ({error}). {REMEDY}"
    if device == "cuda" and not torch.cuda.is_available():
        build = torch.version.cuda or torch.version.hip
        reason = "finds none" if build else "was installed without support for one"
        return f"device='cuda' needs a GPU, and PyTorch {torch.__version__} {reason}. {REMEDY}"
    return ""


def available(device: str = "cuda") -> bool:
    """Return whether a device is available."""
    return not why_not(device)
