"""Study designs on tables in memory, without a database."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparative.balance_table import balance_table
    from .comparative.entropy_balancing import EntropyBalancing
    from .comparative.propensity_weights import PropensityWeights

# The module of each public name, which is imported when the name is first used.
_WHERE = {
    "EntropyBalancing": "comparative.entropy_balancing",
    "PropensityWeights": "comparative.propensity_weights",
    "balance_table": "comparative.balance_table",
}

__all__ = ["EntropyBalancing", "PropensityWeights", "balance_table"]


if not TYPE_CHECKING:  # to whom it would mean that every name is there

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
