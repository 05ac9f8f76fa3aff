"""Base classes of results with ``plot()`` and with export to LaTeX, Excel and Word."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
from pandas.plotting import PlotAccessor

from .formatted_tables_for_papers import Interval, PaperTable, format_table

__all__ = [
    "Curves",
    "Figure",
    "Presentation",
    "ResultTable",
    "draw_estimates",
    "drawn_by",
    "present",
    "present_coefficients",
    "present_test",
]


T = TypeVar("T")
# Plots whose lines or curves are named by columns of the table.
LABELLED = ("forest", "hypothesis_tests", "interval_curves", "ratio_forest")


def drawn_by(figure: str, result: object, **options: Any) -> Any:
    """Draw a result by the function of `steropes.plots` with the name ``figure``.

    Plots are above everything that makes results, and so are looked up by name when they are
    drawn, as pandas looks up its plotting backend.
    """
    return getattr(importlib.import_module("steropes.plots"), figure)(result, **options)


@dataclass(frozen=True)
class Presentation:
    """How a table is drawn and printed in a paper.

    Attributes
    ----------
    figure : str
        The function of `steropes.plots` that draws the table.
    options : mapping
        Arguments of this function.
    intervals : tuple of Interval
        Columns that are one cell of a paper: an estimate with its limits.
    labels : tuple of str
        Columns that name the rows. Default the index.
    captions : mapping
        Captions of columns in a paper, where their names are not clear enough.
    hidden : tuple of str
        Columns that a paper leaves out, besides standard errors and statistics.
    """

    figure: str
    options: Mapping[str, Any]
    intervals: tuple[Interval, ...]
    labels: tuple[str, ...]
    captions: Mapping[str, str]
    hidden: tuple[str, ...]


class Figure(PlotAccessor):
    """The plot of a result; other plots are those of pandas.

    ``table.plot()`` draws the result as a function of `steropes.plots` does, whose further
    arguments, such as ``ax``, are allowed. ``table.plot.line()`` and other methods, and a call with
    ``kind`` or positional arguments, are pandas'.
    """

    def __init__(self, result: Any, presentation: Presentation | None) -> None:
        super().__init__(result)
        self._presentation = presentation

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Draw the result.

        Returns
        -------
        matplotlib Axes
            The axes with the plot, or an array of them.

        Raises
        ------
        DataError
            If columns that the plot needs are no longer in the table.
        ImportError
            If Matplotlib is not installed.
        """
        shown = self._presentation
        if shown is None or args or "kind" in options:
            return super().__call__(*args, **options)
        drawn = {**shown.options, **options}
        if "labels" in shown.options and "labels" not in options:
            drawn["labels"] = tuple(name for name in shown.labels if name in self._parent)
        return drawn_by(shown.figure, self._parent, **drawn)


class _AnyTable(type):
    """Lets every data frame count as a `ResultTable`.

    ``pandas.testing.assert_frame_equal(expected, result)`` demands that ``expected`` is an instance
    of the type of ``result``.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, pd.DataFrame)


class ResultTable(pd.DataFrame, metaclass=_AnyTable):
    """A data frame that is the result of a function of the library.

    It is a pandas DataFrame in every respect, with a plot of its own and a table for papers. Rows
    and columns that are selected from it keep both.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> table = steropes.LogisticRegression().fit(X, y).summary()
    >>> table.plot().get_xlabel()
    'Odds ratio (log scale)'
    >>> print(table.paper_table())
                 Odds ratio (95% CI) P value
    intercept    0.50 (0.05 to 5.51)    0.57
    x0         4.00 (0.13 to 119.23)    0.42
    """

    _metadata: ClassVar[list[str]] = ["_presentation"]
    _presentation: Presentation | None = None

    @property
    def _constructor(self) -> type[ResultTable]:
        return ResultTable

    @property
    def plot(self) -> Figure:
        """The plot of the result: ``table.plot()``; see `Figure`."""
        return Figure(self, self._presentation)

    def paper_table(self, *, digits: int = 2) -> PaperTable:
        r"""Format the table for a paper, with each estimate and its limits in one cell.

        The result is a table of text with ``to_latex``, ``to_excel`` and ``to_word``. It is a table
        of its own so that ``to_latex`` and ``to_excel`` of the result itself still write its
        numbers, as those of every data frame.

        Parameters
        ----------
        digits : int
            Decimals of estimates and limits, default 2; more where these would round to zero.

        Returns
        -------
        PaperTable
            A data frame of text, such as ``"0.82 (0.70 to 0.96)"``, with readable captions.
            Standard errors and test statistics are left out.

        Examples
        --------
        >>> import steropes
        >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
        >>> table = steropes.LogisticRegression().fit(X, y).summary()
        >>> table.drop("intercept").paper_table(digits=1).to_latex().splitlines()[4]
        'x0 & 4.0 (0.1 to 119.2) & 0.42 \\\\'
        """
        if (shown := self._presentation) is None:
            return format_table(pd.DataFrame(self), digits=digits)
        return format_table(
            pd.DataFrame(self), shown.intervals, shown.labels, shown.captions, shown.hidden, digits
        )


def present(
    table: pd.DataFrame,
    figure: str,
    *,
    intervals: Sequence[Interval] = (),
    labels: Sequence[str] = (),
    captions: Mapping[str, str] | None = None,
    hidden: Sequence[str] = (),
    **options: Any,
) -> ResultTable:
    """Make a table a result that is drawn by a function of `steropes.plots`.

    Parameters
    ----------
    table : DataFrame
        The result shares its data and attributes.
    figure : str
        Name of the function.
    intervals : sequence of Interval
        Columns that are one cell of a paper. A forest plot draws the first.
    labels : sequence of str
        Columns that name the rows. Default the index.
    captions : mapping, optional
        Captions of columns in a paper, where their names are not clear enough.
    hidden : sequence of str
        Columns that a paper leaves out, besides standard errors and statistics.
    **options
        Arguments of the function.
    """
    result = ResultTable(table)
    result.attrs = table.attrs
    if labels and figure in LABELLED:
        options["labels"] = tuple(labels)
    if figure == "forest" and intervals:
        drawn = intervals[0]
        options.setdefault("columns", (drawn.estimate, drawn.lower, drawn.upper))
        options.setdefault("label", drawn.caption)
    result._presentation = Presentation(
        figure, options, tuple(intervals), tuple(labels), captions or {}, tuple(hidden)
    )
    return result


def present_test(statistic: float, df: float, p: float) -> pd.Series:
    """Make a series of ``chisq``, ``df`` and ``p`` whose plot is that of a test.

    It is no class of its own, because ``pandas.testing.assert_series_equal`` demands equal classes.
    """
    test = pd.Series({"chisq": statistic, "df": df, "p": p})
    shown = Presentation("hypothesis_tests", {}, (), (), {}, ())
    object.__setattr__(test, "plot", Figure(test, shown))  # as pandas stores its own accessors
    return test


def present_coefficients(
    table: pd.DataFrame,
    ratio: str | None,
    level: float,
    *,
    estimate: str = "coef",
    kind: str = "CI",
    labels: tuple[str, ...] = (),
) -> ResultTable:
    """Make a table of coefficients with their limits a result that is drawn as a forest.

    Parameters
    ----------
    table : DataFrame
        Coefficients, ``lower`` and ``upper``, perhaps with exponentials, such as ``exp(lower)``. A
        paper has the exponentials alone, if there are any.
    ratio : str, optional
        Name of the exponential of a coefficient; None if it is no ratio.
    level : float
        Confidence level of the limits.
    estimate : str
        Column of the coefficients.
    kind : str
        Name of the limits in a paper.
    labels : tuple of str
        Columns that name the rows, default the index.
    """
    columns = (estimate, "lower", "upper")
    title = "Coefficient" if ratio is None else ratio[:1].upper() + ratio[1:]
    intervals = Interval("Coefficient", *columns, level, kind)
    hidden: tuple[str, ...] = ("mean", "sd", "ess", "r_hat")
    if f"exp({estimate})" in table:
        exponentials = (f"exp({estimate})", "exp(lower)", "exp(upper)")
        intervals = Interval(title, *exponentials, level, kind)
        hidden += columns
    names = table.index if not labels else table[labels[-1]]
    intercepts = [x for x in names if str(x) == "intercept" or str(x).endswith(":intercept")]
    return present(
        table,
        "forest",
        intervals=(intervals,),
        labels=labels,
        hidden=hidden,
        columns=columns,
        without=tuple(dict.fromkeys(intercepts)),
        exponentiate=ratio is not None,
        label=title if ratio is None else f"{title} (log scale)",
    )


class Curves(dict[Any, T]):
    """Curves of groups by their labels, a dict that can be drawn.

    Parameters
    ----------
    curves : mapping
        A curve for each label.
    figure : str
        The function of `steropes.plots` that draws them.
    """

    def __init__(self, curves: Mapping[Any, T], figure: str) -> None:
        super().__init__(curves)
        self._figure = figure

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self), self._figure)

    def plot(self, **options: Any) -> Any:
        """Draw the curves of all groups; options are those of the function that draws them."""
        return drawn_by(self._figure, self, **options)


def draw_estimates(
    estimate: np.ndarray, lower: np.ndarray, upper: np.ndarray, **options: Any
) -> Any:
    """Draw estimates with their limits, (n,) or (n, m), as a forest with a line for each.

    Parameters
    ----------
    estimate, lower, upper : arrays
        The lines are named by the rows and, with two dimensions, the columns.
    **options
        As of `steropes.plots.forest`.
    """
    parts = {"estimate": estimate, "lower": lower, "upper": upper}
    places = np.indices(np.shape(estimate)).reshape(np.ndim(estimate), -1).T
    names = [", ".join(str(i) for i in place) for place in places]
    table = pd.DataFrame({name: np.ravel(x) for name, x in parts.items()}, names)
    return drawn_by("forest", table, **{"columns": tuple(parts), "label": "Estimate", **options})
