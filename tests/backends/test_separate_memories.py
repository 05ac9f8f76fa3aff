"""The imitation of separate memories notices what a GPU would refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from separate_memories import SeparateMemories

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _separate():
    with SeparateMemories():
        yield


def test_tensors_of_one_place_meet():
    host = torch.from_numpy(np.ones(3)) + torch.zeros(3)
    device = torch.from_numpy(np.ones(3)).to(CPU, copy=True)
    assert ((device * torch.ones(3, device=CPU)).cpu() + host).numpy().tolist() == [2.0] * 3


@pytest.mark.parametrize(
    "made", [lambda: torch.ones(3), lambda: torch.from_numpy(np.ones(3)), lambda: torch.arange(3)]
)
def test_a_tensor_of_the_host_meets_none_of_the_device(made):
    device = torch.linalg.cholesky_ex(torch.eye(3, device=CPU))[0].sum(0)
    with pytest.raises(RuntimeError, match=r"mul: a tensor of the device meets one of the host"):
        device * made()
    with pytest.raises(RuntimeError, match=r"where: a tensor of the device"):
        torch.where(made() > 0, device, 0.0)
    out = torch.zeros(3, device=CPU)
    with pytest.raises(RuntimeError, match=r"add_: a tensor of the device"):
        out.add_(made())
    assert (device * made().sum()).cpu().numpy().tolist() == (3 * [float(made().sum())])


def test_numpy_reads_no_tensor_of_the_device():
    with pytest.raises(RuntimeError, match="without a transfer"):
        torch.ones(3, device=CPU).numpy()
