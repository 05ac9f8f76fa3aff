"""Misclassification, selection and confounding: how each is removed from counts or from a ratio."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steropes.data.html_representations import FieldsInHtml
from steropes.designs.bias_analysis.bias_parameters import (
    Parameter,
    check_parameter,
    draw_together,
    is_fixed,
)
from steropes.designs.values.argument_checks import check_real
from steropes.errors import DataError

__all__ = ["Bias", "Misclassification", "SelectionBias", "UnmeasuredConfounder"]

# Positions of cells: exposed cases, unexposed cases, exposed others, unexposed others.
A, B, C, D = range(4)


class Bias(FieldsInHtml, ABC):
    """Base class of biases: a subclass has parameters, and changes counts or ratios by them."""

    @abstractmethod
    def _parameters(self) -> Iterable[Parameter]:
        """Return all parameters."""

    @abstractmethod
    def _draw(self, draws: int, rng: np.random.Generator) -> dict[str, NDArray]:
        """Draw the parameters; see `draw`."""

    def _without_bias(self, cells: NDArray, drawn: Mapping[str, NDArray]) -> NDArray:
        """Return the counts without the bias; as they are if only ratios have it."""
        return cells

    def _log_bias(self, drawn: Mapping[str, NDArray]) -> NDArray:
        """Return the log of the bias of ratios; zeros if the counts include it."""
        return np.zeros(len(next(iter(drawn.values()))))

    @property
    def fixed(self) -> bool:
        """Whether all parameters are numbers."""
        return all(map(is_fixed, self._parameters()))

    def draw(self, draws: int, rng: np.random.Generator) -> dict[str, NDArray]:
        """Draw the parameters.

        Parameters
        ----------
        draws : int
            Number of draws.
        rng : Generator
            Source of random numbers.

        Returns
        -------
        dict of str to ndarray, shape (draws,)
            Values by the names of the parameters.
        """
        return self._draw(draws, rng)

    def corrected(self, cells: NDArray, drawn: Mapping[str, NDArray]) -> NDArray:
        """Return the counts without the bias.

        Parameters
        ----------
        cells : ndarray, shape (4, draws)
            Exposed and unexposed cases, and exposed and unexposed others.
        drawn : mapping of str to ndarray, shape (draws,)
            Parameters, as drawn.

        Returns
        -------
        ndarray, shape (4, draws)
            The counts, as they are if the bias is a factor on ratios; negative where the counts
            contradict the parameters.
        """
        return self._without_bias(cells, drawn)

    def log_factor(self, drawn: Mapping[str, NDArray]) -> NDArray:
        """Return the log of the bias of ratios.

        Parameters
        ----------
        drawn : mapping of str to ndarray, shape (draws,)
            Parameters, as drawn.

        Returns
        -------
        ndarray, shape (draws,)
            Logarithms, which are subtracted from log ratios; zeros if the counts include the bias.
        """
        return self._log_bias(drawn)


@dataclass(frozen=True)
class Misclassification(Bias):
    """Errors in who was exposed or who had the outcome.

    Parameters
    ----------
    of : {"exposure", "outcome"}
        The misclassified variable.
    sensitivity, specificity : float or distribution, or a pair of them
        Probabilities of a correct classification. A pair is differential: of cases and others for
        the exposure, of exposed and unexposed people for the outcome.
    correlation : float, default 0.0
        Correlation of the two sensitivities of a pair, and of the two specificities, on a normal
        scale (copula); from 0 to 1.

    Raises
    ------
    DataError
        A parameter is no probability.

    References
    ----------
    Fox, MacLehose and Lash (2021), Applying Quantitative Bias Analysis to Epidemiologic Data, 2nd
    edition, Springer. Fox, Lash and Greenland (2005), International Journal of Epidemiology
    34:1370–1376.

    Examples
    --------
    >>> from steropes.designs.bias_analysis import Misclassification, bias_analysis
    >>> exposure = Misclassification("exposure", sensitivity=0.78, specificity=0.99)
    >>> bias_analysis([[215, 1449], [668, 4296]], exposure).summary.round(4)
               estimate   lower   upper
    observed     0.9542  0.8092  1.1252
    corrected    0.9491  0.7896  1.1408
    """

    of: Literal["exposure", "outcome"]
    sensitivity: Parameter
    specificity: Parameter
    correlation: float = 0.0

    def __post_init__(self) -> None:
        if self.of not in ("exposure", "outcome"):
            raise DataError(f"of must be 'exposure' or 'outcome', not {self.of!r}.")
        for name in ("sensitivity", "specificity"):
            for parameter in _pair(name, getattr(self, name)):
                check_parameter(name, parameter, 0.0, 1.0)
        _check_correlation(self.correlation)
        pairs = [isinstance(x, tuple | list) for x in (self.sensitivity, self.specificity)]
        if self.correlation and not any(pairs):
            raise DataError(
                "correlation is for pairs, such as sensitivity=(among cases, among others); leave "
                "it out."
            )

    def _parameters(self) -> Iterable[Parameter]:
        """See `Bias`."""
        return (*_pair("", self.sensitivity), *_pair("", self.specificity))

    def _draw(self, draws: int, rng: np.random.Generator) -> dict[str, NDArray]:
        """See `Bias`."""
        found = {}
        groups = ("cases", "others") if self.of == "exposure" else ("exposed", "unexposed")
        for name in ("sensitivity", "specificity"):
            given = getattr(self, name)
            if isinstance(given, tuple | list):
                both = draw_together(given, self.correlation, draws, rng)
            else:
                both = np.repeat(draw_together([given], 0.0, draws, rng), 2, axis=0)
            for group, row in zip(groups, both, strict=True):
                found[f"{name} of {self.of} ({group})"] = row
        return found

    def _without_bias(self, cells: NDArray, drawn: Mapping[str, NDArray]) -> NDArray:
        """See `Bias`."""
        se_1, se_0, sp_1, sp_0 = drawn.values()
        if self.of == "exposure":
            pairs = ((A, B, se_1, sp_1), (C, D, se_0, sp_0))
        else:
            pairs = ((A, C, se_1, sp_1), (B, D, se_0, sp_0))
        found = np.empty_like(cells)
        for yes, no, se, sp in pairs:
            total, better = cells[yes] + cells[no], se + sp - 1
            with np.errstate(divide="ignore", invalid="ignore"):
                found[yes] = np.where(better > 0, (cells[yes] - (1 - sp) * total) / better, -1.0)
            found[no] = total - found[yes]
        return found


@dataclass(frozen=True)
class UnmeasuredConfounder(Bias):
    """A confounder of 0 and 1 that no one measured.

    Parameters
    ----------
    exposed, unexposed : float or distribution
        Its prevalence in the two groups.
    risk_ratio : float or distribution
        Ratio of the outcome with it to that without it, on the scale of the estimate.
    correlation : float, default 0.0
        Correlation of the two prevalences on a normal scale (copula), from 0 to 1.

    Raises
    ------
    DataError
        A prevalence is no probability, or the ratio is not positive.

    References
    ----------
    Bross (1966), Journal of Chronic Diseases 19:637–647. Schlesselman (1978), American Journal of
    Epidemiology 108:3–8.

    Examples
    --------
    >>> from steropes.designs.bias_analysis import UnmeasuredConfounder, bias_analysis
    >>> missing = UnmeasuredConfounder(exposed=0.8, unexposed=0.05, risk_ratio=0.63)
    >>> found = bias_analysis([[105, 85], [527, 93]], missing, measure="risk ratio")
    >>> found.summary["estimate"].round(4).tolist()
    [0.3479, 0.4851]
    """

    exposed: Parameter
    unexposed: Parameter
    risk_ratio: Parameter
    correlation: float = 0.0

    def __post_init__(self) -> None:
        check_parameter("exposed", self.exposed, 0.0, 1.0)
        check_parameter("unexposed", self.unexposed, 0.0, 1.0)
        check_parameter("risk_ratio", self.risk_ratio, 0.0, np.inf)
        _check_correlation(self.correlation)

    def _parameters(self) -> Iterable[Parameter]:
        """See `Bias`."""
        return self.exposed, self.unexposed, self.risk_ratio

    def _draw(self, draws: int, rng: np.random.Generator) -> dict[str, NDArray]:
        """See `Bias`."""
        both = draw_together([self.exposed, self.unexposed], self.correlation, draws, rng)
        (ratio,) = draw_together([self.risk_ratio], 0.0, draws, rng)
        names = ("confounder (exposed)", "confounder (unexposed)", "risk ratio of confounder")
        return dict(zip(names, (*both, ratio), strict=True))

    def _log_bias(self, drawn: Mapping[str, NDArray]) -> NDArray:
        """See `Bias`."""
        p1, p0, ratio = drawn.values()
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p(p1 * (ratio - 1)) - np.log1p(p0 * (ratio - 1)))


@dataclass(frozen=True)
class SelectionBias(Bias):
    """Selection into the data that depends on exposure and outcome.

    Parameters
    ----------
    cases : pair of float or distribution
        Probabilities that exposed and unexposed cases are in the data.
    others : pair of float or distribution
        Probabilities that exposed and unexposed people without the outcome are in the data.
    correlation : float, default 0.0
        Correlation of the four probabilities on a normal scale (copula), from 0 to 1.

    Raises
    ------
    DataError
        A parameter is no probability, or can be zero.

    References
    ----------
    Fox, MacLehose and Lash (2021), Applying Quantitative Bias Analysis to Epidemiologic Data, 2nd
    edition, Springer.

    Examples
    --------
    >>> from steropes.designs.bias_analysis import SelectionBias, bias_analysis
    >>> taken = SelectionBias(cases=(0.94, 0.85), others=(0.64, 0.25))
    >>> bias_analysis([[136, 107], [297, 165]], taken).summary["estimate"].round(4).tolist()
    [0.7061, 1.6346]
    """

    cases: tuple[Parameter, Parameter]
    others: tuple[Parameter, Parameter]
    correlation: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cases", "others"):
            given = getattr(self, name)
            if not isinstance(given, tuple | list):
                raise DataError(f"{name} must be a pair: of exposed and of unexposed people.")
            for parameter in _pair(name, given):
                check_parameter(name, parameter, 0.0, 1.0)
                if is_fixed(parameter) and parameter == 0:
                    raise DataError(f"{name}: nobody would be selected with a probability of 0.")
        _check_correlation(self.correlation)

    def _parameters(self) -> Iterable[Parameter]:
        """See `Bias`."""
        return (*self.cases, *self.others)

    def _draw(self, draws: int, rng: np.random.Generator) -> dict[str, NDArray]:
        """See `Bias`."""
        names = [
            f"selection of {group} ({arm})"
            for group in ("cases", "others")
            for arm in ("exposed", "unexposed")
        ]
        found = draw_together([*self.cases, *self.others], self.correlation, draws, rng)
        return dict(zip(names, found, strict=True))

    def _without_bias(self, cells: NDArray, drawn: Mapping[str, NDArray]) -> NDArray:
        """See `Bias`."""
        with np.errstate(divide="ignore"):
            return np.asarray(cells / np.array(list(drawn.values())))


def _pair(name: str, given: Parameter) -> tuple[Parameter, Parameter]:
    """Return the two parameters of a pair, or one twice."""
    if not isinstance(given, tuple | list):
        return given, given
    if len(given) != 2:
        raise DataError(f"{name} must be one parameter or a pair, not {len(given)}.")
    return given[0], given[1]


def _check_correlation(correlation: float) -> None:
    """Refuse a correlation that cannot be drawn."""
    check_real("correlation", correlation, lambda x: 0 <= x <= 1, "a number from 0 to 1")
