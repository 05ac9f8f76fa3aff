"""The stages of ``python -m benchmarks.gpu``, in the order of their value."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["STAGES", "Stage"]


@dataclass(frozen=True)
class Stage:
    """A stage of the benchmark.

    Attributes
    ----------
    run : str
        The function, as ``module:name`` within `benchmarks.gpu`.
    limit : float
        Seconds after which its process is ended.
    parts : int
        Processes among which a check divides its cases. A check (at least one) runs together with
        the others; figures (zero) are measured alone, in one process, when the checks have ended.
    data : str
        The data of a study, by their name in `data.DATA`.
    family : str
        The family of `benchmarks.device_check` that must have passed.
    target : float
        Seconds to reach on an H100.
    """

    run: str
    limit: float
    parts: int = 0
    data: str = ""
    family: str = ""
    target: float = 0.0


def _study(data: str, family: str, limit: float, target: float) -> Stage:
    return Stage("studies:study", limit, data=data, family=family, target=target)


STAGES = {
    "kernels": Stage("checks:kernels", 120, parts=1),
    "families": Stage("checks:families", 120, parts=6),
    "suite": Stage("checks:suite", 120, parts=1),
    "logistic-10x10": _study("logistic-claims", "logistic", 100, 4.0),
    "bootstrap-200": _study("cox-claims", "cox breslow", 110, 20.0),
    "claims-cv-large": _study("correlated-claims", "logistic", 60, 4.0),
    "cox-10x10": _study("cox-claims", "cox breslow", 60, 5.0),
    "cox-million": _study("cox-million", "cox breslow", 30, 0.5),
    "fine-gray-million": _study("fine-gray-million", "fine-gray", 30, 0.7),
    "strata-million": _study("strata-million", "cox strata", 30, 0.5),
    "conditional-exact": _study("matched-sets", "conditional exact", 20, 0.05),
    "cox-10x10-host": Stage("studies:on_host", 90, data="cox-claims"),
    "ceilings": Stage("measurements:ceilings", 30),
    "operations": Stage("measurements:operations", 60),
}
