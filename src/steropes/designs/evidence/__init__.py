"""Evidence synthesis over databases: fixed and random effects."""

from steropes.designs.evidence.hierarchical_synthesis import (
    HierarchicalSynthesis,
    hierarchical_synthesis,
)
from steropes.designs.evidence.meta_analysis import (
    Combined,
    Profile,
    combine_normal,
    combine_profiles,
)
from steropes.designs.evidence.random_effects import RandomEffects, random_effects

__all__ = [
    "Combined",
    "HierarchicalSynthesis",
    "Profile",
    "RandomEffects",
    "combine_normal",
    "combine_profiles",
    "hierarchical_synthesis",
    "random_effects",
]
