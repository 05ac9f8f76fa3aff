"""The Triton kernels: equal to their twins, and compiled for GPUs that are not here."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmarks.gpu.kernel_cases import kernel_cases

TYPES = {
    torch.float64: "*fp64", torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.int64: "*i64",
    torch.int32: "*i32", torch.uint16: "*u16", torch.uint8: "*u8",
}  # fmt: skip
# Instructions whose order, and so the rounding of sums, would change between runs.
ATOMIC = re.compile(r"\b(atom|red)\.|_atomic_")
# Bytes of shared memory that one program has on the smallest of the architectures.
SHARED = 64 * 1024
ARCHITECTURES = [("cuda", 80, 32), ("cuda", 90, 32), ("cuda", 120, 32), ("hip", "gfx942", 64)]


def test_kernels_equal_their_twins_in_the_interpreter():
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("triton_interpreted.py"))],
        capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def launches(monkeypatch, lanes):
    """The distinct kernels that the cases launch, with the types of their arguments."""
    from triton.runtime.jit import JITFunction

    found = {}

    def record(self, *arguments, grid, warmup, num_warps=4, enable_fp_fusion=True, **constants):
        signature = {}
        for name, x in zip(self.arg_names, arguments, strict=False):
            if isinstance(x, torch.Tensor):
                signature[name] = TYPES[x.dtype]
            else:
                signature[name] = "i64" if abs(x) >= 2**31 else "i32"
        signature |= dict.fromkeys(constants, "constexpr")
        key = self.fn.__name__, *signature.items(), *constants.items()
        found[key] = self, signature, constants, num_warps

    monkeypatch.setattr(JITFunction, "run", record)
    for case in kernel_cases("cpu", 40, lanes):
        case.with_triton()
    monkeypatch.undo()
    return found


def compiles(found, architecture):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    for kernel, signature, constants, warps in found.values():
        source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
        options = {"enable_fp_fusion": True, "num_warps": warps}
        made = triton.compile(source, target=GPUTarget(*architecture), options=options)
        code = made.asm.get("ptx", "") + made.asm.get("amdgcn", "")
        assert len(code) > 100
        assert not ATOMIC.search(code)
        assert made.metadata.shared <= SHARED


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: str(a[1]))
def test_each_kernel_compiles_without_atomic_operations(monkeypatch, architecture):
    pytest.importorskip("triton")
    found = launches(monkeypatch, (10,))
    first = {}
    for key, call in found.items():
        first.setdefault(key[0], call)
    assert len(first) == 15
    compiles(first, architecture)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: str(a[1]))
def test_every_variant_compiles_without_a_gpu(monkeypatch, architecture):
    pytest.importorskip("triton")
    compiles(launches(monkeypatch, (1, 10, 100)), architecture)
