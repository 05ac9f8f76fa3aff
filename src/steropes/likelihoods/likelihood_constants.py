"""Tuning parameters of likelihoods: event-time bins, nuisance parameters, dispersion and chunks."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = [
    "CHUNK_SIZES",
    "DISPERSION",
    "HAZARD_BINS",
    "LEVELS",
    "NUISANCE",
    "RESIDUALS",
    "ChunkPolicy",
    "DispersionPolicy",
    "HazardBinPolicy",
    "LevelPolicy",
    "NuisancePolicy",
    "ResidualPolicy",
]


@dataclass(frozen=True)
class HazardBinPolicy:
    """Bins of event times in curvatures for Newton steps: fewer bins are cheaper and less exact.

    Attributes
    ----------
    min_bins : int
        Minimum number of bins over all strata.
    bins_per_stratum : int
        Number of bins per stratum, as long as there are many more rows than bins.
    rows_per_bin : int
        Minimum number of rows per bin when the number of bins grows with the strata.
    events_per_stratum : int
        Mean number of events per stratum from which a subset of the rows represents all
        rows.
    """

    min_bins: int = 300
    bins_per_stratum: int = 3
    rows_per_bin: int = 100
    events_per_stratum: int = 1000


@dataclass(frozen=True)
class NuisancePolicy:
    """Newton steps of nuisance parameters given η.

    Attributes
    ----------
    settled : float
        Decrement below which nuisance parameters are at their optimum given η.
    max_steps : int
        Maximum number of Newton steps of the nuisance parameters given η.
    max_halvings : int
        Maximum number of step halvings of a line search.
    rounding : float
        Relative rounding error of a sum over rows.
    max_decrease : float
        Largest decrease that a Newton step can predict, relative to loss plus weight.
    """

    settled: float = 1e-11
    max_steps: int = 100
    max_halvings: int = 60
    rounding: float = 2e-14
    max_decrease: float = 1e4


@dataclass(frozen=True)
class LevelPolicy:
    """Levels of cumulative models that may lose their mass.

    Attributes
    ----------
    empty_width : float
        Width of a level, in units of the thresholds, below which a shrinking level is
        dropped.
    shrinking_share : float
        Share of its width that a level must lose in a step to count as shrinking.
    assumed_working_set : int
        Assumed maximum size of a working set.
    max_restorations : int
        Maximum number of times that dropped levels may be restored.
    zero_derivative : float
        Derivatives below this multiple of √Σw are zero.
    fold_groups : int
        Number of quantile groups of the outcome that are balanced over folds.
    """

    empty_width: float = 1e-5
    shrinking_share: float = 0.3
    assumed_working_set: int = 1000
    max_restorations: int = 100
    zero_derivative: float = 1e-7
    fold_groups: int = 20


@dataclass(frozen=True)
class ResidualPolicy:
    """Smallest residual variances of linear models, below which they are rounding.

    Attributes
    ----------
    min_residual_share : float
        Certificates assume residuals of at least this share of the outcome's spread.
    equal_share : float
        A spread below this share of the outcome's size is rounding.
    same_share : float
        A variance of the training outcomes below this share of their mean square is zero.
    perfect_share : float
        Residual variances below this share of the outcome's variance are raised to it in
        scores.
    """

    min_residual_share: float = 1e-3
    equal_share: float = 1e-13
    same_share: float = 1e-12
    perfect_share: float = 1e-8


@dataclass(frozen=True)
class DispersionPolicy:
    """Steps and series for the dispersion of negative binomial and gamma models.

    Attributes
    ----------
    min_value, max_value : float
        Bounds of the dispersion. At the lower one the counts vary no more than Poisson's.
    start : float
        Initial dispersion.
    max_factor : float
        Largest factor by which a step changes the dispersion.
    max_steps : int
        Maximum number of steps.
    settled : float
        A step is the last one if the score is below this multiple of its standard error.
    stirling_below : float
        Dispersions below it use Stirling's series of the gamma function.
    max_series : float
        Arguments below it use power series.
    series_terms : int
        Number of terms of these series.
    shape_steps : int
        Newton steps for the shape of gamma models, of which four suffice for full precision.
    shape_series_below : float
        Mean half-deviances of gamma models below it use two terms of a series of the shape.
    shape_asymptote_above : float
        Mean half-deviances of gamma models above it use the asymptote of the shape.
    max_score_unit : float
        Largest dispersion of gamma models in units of scores; fits with more extreme outcomes are
        refused.
    far_level : float
        Gamma models start at the median of log y if it is at least this far from zero.
    """

    min_value: float = 1e-12
    max_value: float = 1e8
    start: float = 0.5
    max_factor: float = 30.0
    max_steps: int = 200
    settled: float = 1e-8
    stirling_below: float = 0.05
    max_series: float = 0.02
    series_terms: int = 10
    shape_steps: int = 8
    shape_series_below: float = 1e-4
    shape_asymptote_above: float = 1e10
    max_score_unit: float = 1e4
    far_level: float = 20.0

    @property
    def log_series(self) -> float:
        """Logarithm of ``max_series``."""
        return math.log(self.max_series)


@dataclass(frozen=True)
class ChunkPolicy:
    """Sizes of chunks, which are fixed so that no sum depends on the number of threads.

    Attributes
    ----------
    strata_chunks : int
        Number of chunks of strata.
    rows : int
        Rows of a chunk, fixed so that no sum depends on the number of threads.
    right_hand_sides : int
        Number of right-hand sides solved together for the diagonal of an inverse.
    people : int
        Number of people whose intervals are processed together.
    device_entries : int
        Number of intervals of people times replicates that a device processes together, if these
        are more people.
    """

    strata_chunks: int = 16
    rows: int = 16384
    right_hand_sides: int = 256
    people: int = 4096
    device_entries: int = 8_000_000


HAZARD_BINS = HazardBinPolicy()
NUISANCE = NuisancePolicy()
LEVELS = LevelPolicy()
RESIDUALS = ResidualPolicy()
DISPERSION = DispersionPolicy()
CHUNK_SIZES = ChunkPolicy()
