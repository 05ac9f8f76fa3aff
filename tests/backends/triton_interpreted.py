"""Compare all Triton kernels with their twins in Triton's interpreter; see `test_triton_kernels`.

Run as a program, since Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
from benchmarks.gpu.kernel_cases import failures, kernel_cases

from steropes.backends.pytorch.kernels.gather_products import gather_with_triton
from steropes.backends.pytorch.kernels.line_pieces import cut_pieces


def beyond_32_bits(folder: str) -> list[str]:
    """Gather from an array of more than 2³¹ entries, of which a sparse file stores three rows."""
    B = 8
    rows = 2**31 // B + 100
    D = np.memmap(Path(folder) / "D", np.float64, "w+", shape=(rows, B))
    at = np.array([3, rows - 50, rows - 1], np.int32)
    D[at] = np.arange(3.0 * B).reshape(3, B)
    pieces = cut_pieces(torch.tensor([0, 2]), torch.tensor([2, 3]))
    D = torch.from_numpy(D)
    found = gather_with_triton(pieces, torch.from_numpy(at), torch.empty(0), D)
    expected = torch.stack([D[3] + D[rows - 50], D[rows - 1]])
    return [] if torch.equal(found, expected) else ["positions beyond 32 bits are wrong"]


torch.set_num_threads(1)
warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of infinities in masked lanes
found = [line for case in kernel_cases("cpu", 64, (1, 3)) for line in failures(case, 2)]
with tempfile.TemporaryDirectory() as folder:
    found += beyond_32_bits(folder)
print("\n".join(found))
sys.exit(bool(found))
