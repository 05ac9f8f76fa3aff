"""Random uses of models, each held against NumPy: refits, effects, draws, curves, pictures."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable

import numpy as np

import steropes

from .uses_of_curves import interval_censored, late_fine_gray, reductions
from .uses_of_draws import bca_bootstrap, dask_blocks, posterior
from .uses_of_formulas import formula_refits, nomogram, subset_effects

__all__ = ["USES", "judge_use"]

# Each draws a problem, calls its last argument with each error, and describes the problem.
USES: dict[str, Callable[[np.random.Generator, Callable[[str], None]], str]] = {
    "formula_refits": formula_refits,
    "subset_effects": subset_effects,
    "nomogram": nomogram,
    "interval_censored": interval_censored,
    "reductions": reductions,
    "late_fine_gray": late_fine_gray,
    "posterior": posterior,
    "bca_bootstrap": bca_bootstrap,
    "dask_blocks": dask_blocks,
}


def judge_use(seed: int, use: str | None = None) -> tuple[str, str, str, list[str]]:
    """Draw and check the use of a seed.

    Returns
    -------
    use, words, status, findings
        A `SeparationError` counts as "refused rightly", and a warning of chains that have not mixed
        as "not converged"; every other error and warning is a finding.
    """
    chosen = np.random.default_rng([20261128, seed]).choice(list(USES))
    use = use or str(chosen)
    findings: list[str] = []
    words, status = "", "ok"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            words = USES[use](np.random.default_rng([20261128, seed, 1]), findings.append)
        except steropes.SeparationError as error:
            status, words = "refused rightly", str(error)[:80]
        except steropes.NotConvergedWarning as warning:
            status, words = "not converged", str(warning)[:80]
        except Exception:
            last = traceback.format_exc().strip().splitlines()
            findings.append(f"{last[-1][:200]} ({last[-3].strip() if len(last) > 2 else ''})")
    return use, words, "WRONG" if findings else status, findings
