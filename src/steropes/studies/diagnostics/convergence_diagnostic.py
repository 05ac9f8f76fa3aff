"""Convergence of a study's fits, as a diagnostic instead of a warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from steropes.convergence_warning import NotConvergedWarning

__all__ = ["convergence", "quiet_fits"]


@contextmanager
def quiet_fits() -> Iterator[None]:
    """Silence the warning of fits that do not converge, which a diagnostic reports instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        yield


def convergence(**fits: bool | None) -> tuple[bool | None, str]:
    """Summarise whether all fits behind an estimate ended at their optimum.

    Parameters
    ----------
    **fits : bool or None
        By name, with underscores for spaces, whether a fit converged; None if there is none.

    Returns
    -------
    (bool or None, str)
        Whether all did, None if there was none; and the names of those that did not.
    """
    known = {name.replace("_", " "): bool(end) for name, end in fits.items() if end is not None}
    missed = [name for name, end in known.items() if not end]
    return (not missed if known else None), " and ".join(missed)
