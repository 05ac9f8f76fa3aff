"""Stages that stand for those of the benchmark for GPUs."""

from __future__ import annotations

import os
import time


def passes(options, say):
    return {"ok": True, "process": os.getpid()}


def fails(options, say):
    raise ValueError("a slip")


def sleeps(options, say):
    say(**{"first seconds": 1.5})
    time.sleep(600)


def dies(options, say):
    os._exit(3)


def one_family_differs(options, say):
    own = [["cox breslow, lasso, sparse | 1e-2"], []][options.part]
    return {"ok": not own, "cases": 4, "differences": own}


def measures(options, say):
    return {
        "ok": True, "first seconds": 2.0, "seconds": 1.25, "optimality": 1e-5,
        "counts": {"steps": 12, "models without a step": 3}, "split": {"upload": 0.5},
    }  # fmt: skip
