"""The stages of ``python -m benchmarks.gpu``, each in a process of its own.

``python -m benchmarks.gpu.stages NAME OPTIONS`` runs one and prints its record, one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import warnings
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["COMPILERS", "STAGES", "Stage"]

# The largest difference of log-likelihoods, relative to their size, of two converged fits.
LIKELIHOOD = 1e-6
# Seconds up to which a fit is repeated.
AGAIN = 30.0
# The relative difference of chosen variances up to which two searches ended at the same place.
VARIANCE = 0.05


# The number of processes that compile the host's kernels in the background.
COMPILERS = 4


@dataclass(frozen=True)
class Stage:
    """A stage of the benchmark.

    Attributes
    ----------
    run : callable
        Takes the options and returns the record, with ``ok``.
    limit : float
        Seconds after which the process is ended.
    decisive : bool
        Whether a failure ends the benchmark, because later figures would mean nothing.
    study : str
        The data that the stage needs, by their name in `studies.DATA`.
    """

    run: Callable[[Namespace], dict[str, Any]]
    limit: float
    decisive: bool = False
    data: str = ""


def _torch_device(options: Namespace) -> Any:
    import torch

    return torch.device("cpu" if options.device == "torch-cpu" else options.device)


def _versions(options: Namespace) -> dict[str, Any]:
    from steropes.backends.pytorch import why_not

    from . import measurements

    if reason := why_not(options.device):
        return {"ok": False, "error": reason}
    return {"ok": True, **measurements.versions(_torch_device(options))}


def _ceilings(options: Namespace) -> dict[str, Any]:
    from . import measurements

    return {"ok": True, **measurements.ceilings(_torch_device(options), options.small)}


def _kernels(options: Namespace) -> dict[str, Any]:
    """Compare kernels with their twins; on the CPU, in Triton's interpreter."""
    if options.device == "torch-cpu":
        os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
    from steropes.backends.pytorch.kernels.triton_or_twin import tl

    if tl is None:
        return {"ok": options.device == "torch-cpu", "error": "Triton is not installed"}
    from .kernel_cases import failures, kernel_cases

    device = "cpu" if options.device == "torch-cpu" else options.device
    n, lanes = (48, (1, 3)) if options.small else (20_000, (1, 10, 100))
    cases = kernel_cases(device, n, lanes)
    found = [line for case in cases for line in _or_error(case.name, partial(failures, case, 3))]
    return {"ok": not found, "cases": len(cases), "differences": found}


def _or_error(name: str, check: Callable[[], list[str]]) -> list[str]:
    """Return what a check found; an exception counts as a finding, so that the rest still runs."""
    try:
        return check()
    except Exception as error:
        traceback.print_exc()
        return [f"{name}: {type(error).__name__}: {error}"[:300]]


def _families(options: Namespace) -> dict[str, Any]:
    """Fit every family on the device and on the CPU."""
    from .. import device_check

    n, p, density = (60, 4, 0.4) if options.small else (20_000, 40, 0.1)
    given = Namespace(n=n, p=p, density=density, device=options.device)
    chosen = [
        case
        for family in device_check.FAMILIES
        for case in device_check.cases(family)[::9]
        if case.family == family
    ]

    def differences(case: device_check.Case) -> list[str]:
        row, good = device_check.compare(case, given, 1.0)
        return [] if good else [" | ".join(row[:5])]

    bad = [line for case in chosen for line in _or_error(str(case), partial(differences, case))]
    return {"ok": not bad, "cases": len(chosen), "differences": bad}


def _compile(part: int) -> None:
    """Compile the host's kernels of some families by small fits; they are cached on disk."""
    from .. import device_check

    for family in device_check.FAMILIES[part::COMPILERS]:
        for case in device_check.cases(family)[::9]:
            if case.family == family:
                device_check.fit(case, "cpu", 60, 4, 0.4, False)


def _operations(options: Namespace) -> dict[str, Any]:
    from . import measurements

    top = options.records.get("ceilings", {})
    if not top.get("ok"):
        return {"ok": False, "error": "the ceilings have not been measured"}
    return {"ok": True, **measurements.operations(options.device, options.small, top)}


def _timed_fit(
    make: Callable[[], Any], X: Any, y: Any, data: dict[str, Any], draws: int
) -> tuple[float, Any]:
    """Return the seconds of a fit, or of bootstrap draws after it, and the fitted model."""
    start = time.perf_counter()
    model = make().fit(X, y, **data)
    passed = time.perf_counter() - start
    if draws:
        start = time.perf_counter()
        model.bootstrap(draws, random_state=1)
        passed = time.perf_counter() - start
    return passed, model


def _study(name: str) -> Callable[[Namespace], dict[str, Any]]:
    def run(options: Namespace) -> dict[str, Any]:
        from .studies import STUDIES, load, prepare

        study, folder = STUDIES[name], Path(options.folder)
        small = folder / "small"
        small.mkdir(exist_ok=True)
        prepare(study.data, True, small)
        X, y, data = load(study.data, folder)
        record: dict[str, Any] = {"target": study.target, "threads": options.threads}
        fitted = {}
        for device, draws in zip((options.device, "cpu"), study.draws, strict=True):
            n_jobs = options.threads if device == "cpu" else None
            where = "host" if device == "cpu" else "device"
            make = partial(study.model, device, n_jobs, options.small)
            draws = 3 if draws and options.small else draws
            if draws:
                record[f"{where} draws"] = draws
            _timed_fit(make, *load(study.data, small), min(draws, 3))  # compiles
            record[f"{where} seconds"], fitted[where] = _timed_fit(make, X, y, data, draws)
            if record[f"{where} seconds"] < AGAIN:
                # Kernels for other sizes may have been compiled.
                record[f"{where} seconds, first"] = record[f"{where} seconds"]
                record[f"{where} seconds"], fitted[where] = _timed_fit(make, X, y, data, draws)
            print(json.dumps(record), file=sys.stderr, flush=True)  # if the host takes too long
        return record | _agreement(fitted["device"], fitted["host"])

    return run


def _agreement(device: Any, host: Any) -> dict[str, Any]:
    """Whether two fits are of one model, as far as their tolerance goes."""
    a, b = (getattr(m, "variance_", None) for m in (device, host))
    out = {"optimality": [float(device.optimality_), float(host.optimality_)]}
    ok = bool(device.converged_) and bool(np.isfinite(device.coef_).all())
    if isinstance(a, float) and isinstance(b, float):
        out["variance"] = [a, b]
        ok &= abs(a / b - 1.0) <= VARIANCE
    if a == b:
        gap = abs(device.log_likelihood_ - host.log_likelihood_)
        gap /= 1.0 + abs(host.log_likelihood_)
        out["log-likelihood gap"] = float(gap)
        ok &= gap <= LIKELIHOOD
    return {"ok": ok, **out}


def _study_stage(name: str, data: str, limit: float) -> Stage:
    return Stage(_study(name), limit, data=data)


STAGES = {
    "versions": Stage(_versions, 90, decisive=True),
    "ceilings": Stage(_ceilings, 60),
    "kernels": Stage(_kernels, 200, decisive=True),
    "families": Stage(_families, 180, decisive=True),
    "operations": Stage(_operations, 60),
    "cox-10x10": _study_stage("cox-10x10", "cox-claims", 150),
    "claims-cv-large": _study_stage("claims-cv-large", "correlated-claims", 150),
    "cox-million": _study_stage("cox-million", "cox-million", 60),
    "fine-gray-million": _study_stage("fine-gray-million", "fine-gray-million", 60),
    "strata-million": _study_stage("strata-million", "strata-million", 60),
    "conditional-exact": _study_stage("conditional-exact", "matched-sets", 40),
    "logistic-10x10": _study_stage("logistic-10x10", "logistic-claims", 120),
    "bootstrap-200": _study_stage("bootstrap-200", "cox-claims", 120),
}


def main() -> int:
    """Run one stage."""
    name, options = sys.argv[1], Namespace(**json.loads(sys.argv[2]))
    warnings.simplefilter("ignore")
    if name.startswith("compile "):
        _compile(int(name.removeprefix("compile ")))
        return 0
    if name.startswith("prepare "):
        from .studies import prepare

        prepare(name.removeprefix("prepare "), options.small, Path(options.folder))
        return 0
    start = time.perf_counter()
    record = STAGES[name].run(options)
    print(json.dumps({"stage": name, **record, "seconds": time.perf_counter() - start}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
