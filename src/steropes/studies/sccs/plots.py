"""The pictures of a case series, as matplotlib figures; they show published numbers only."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from steropes.errors import DataError
from steropes.studies._extras import need
from steropes.studies.disclosure import small
from steropes.studies.plots import COLOURS, FAINT, INK, MUTED, STYLE
from steropes.studies.sccs.splines import TimeEffect
from steropes.studies.wording import title_case

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from steropes.studies.sccs.study import CaseSeries

__all__ = [
    "PICTURES",
    "plot_event_to_end",
    "plot_forest",
    "plot_profile",
    "plot_rates",
    "plot_spans",
    "plot_splines",
    "plot_time_to_event",
    "svg_of",
]

BLUE, RED = COLOURS["target"], COLOURS["comparator"]
MOST_IN_FOREST = 40


def svg_of(figure: Figure) -> str:
    """A figure as an SVG element, the same on every run."""
    matplotlib = need("matplotlib")
    with matplotlib.rc_context(STYLE):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def plot_time_to_event(study: CaseSeries, covariate: str | None = None) -> Figure:
    """Outcomes week by week around the first exposure; small counts as hatched bars."""
    t = study.time_to_event(covariate)
    least = study.settings.min_cell
    axis, figure = _one(7.4, 3.4)
    few = np.array([small(int(n), least) for n in t["outcomes"]])
    height = np.where(few, least, t["outcomes"])
    week = t["week"].to_numpy()
    before = week < 0
    for chosen, colour in ((before & ~few, MUTED), (~before & ~few, BLUE)):
        axis.bar(week[chosen] + 0.5, height[chosen], 0.9, color=colour)
    if few.any():
        axis.bar(
            week[few] + 0.5, height[few], 0.9, color="none", edgecolor=MUTED, hatch="////", lw=0.6,
            label=f"fewer than {least}",
        )  # fmt: skip
        axis.legend(loc="upper left")
    axis.axvline(0, color=INK, lw=1)
    axis.set(xlabel="Weeks from the start of the first exposure", ylabel="Outcomes", xlim=(-26, 26))
    axis.locator_params(axis="y", integer=True)
    return figure


def plot_event_to_end(study: CaseSeries) -> Figure:
    """Time from the outcome to the end of observation, where that is the person's and where not."""
    p, least = study.population, max(study.settings.min_cell, 1)
    years = (p.end[p.outcome_case] - p.outcome_day) / 365.25
    known = p.end_known[p.outcome_case]
    axis, figure = _one(7.4, 3.2)
    top = max(float(np.quantile(years, 0.95)), 1 / 12) if len(years) else 1.0
    edges = np.linspace(0, top, 41)
    for chosen, colour, label in (
        (~known, RED, "observation ended"),
        (known, MUTED, "the data or the study ended"),
    ):
        counts, _ = np.histogram(years[chosen], edges)
        counts = np.where((counts > 0) & (counts < least), 0, counts)
        if counts.any():
            axis.stairs(counts, edges, color=colour, fill=True, alpha=0.45, label=label)
    axis.legend(loc="upper right")
    axis.set(xlabel="Years from an outcome to the end of time that counts", ylabel="Outcomes")
    return figure


def plot_spans(study: CaseSeries) -> Figure:
    """How many cases' time spans each month of age and of the calendar."""
    least = study.settings.min_cell
    aged = not np.isnan(study.population.age).any()
    figure = _figure(8.4, 3.0)
    axes = np.atleast_1d(figure.subplots(1, 1 + aged))
    c = study.calendar_spans()
    series = [(axes[-1], c["year"] + (c["month"] - 0.5) / 12, c["cases"], "Calendar year")]
    if aged:
        a = study.age_spans()
        series.append((axes[0], (a["age_month"] + 0.5) / 12, a["cases"], "Age in years"))
    for axis, x, n, label in series:
        shown = np.where((n > 0) & (n < least), np.nan, n)
        axis.fill_between(x, 0, shown, color=BLUE, alpha=0.35, lw=0, step="mid")
        axis.set(xlabel=label, ylim=(0, None))
        _clean(axis)
    axes[0].set_ylabel("Cases with time before and after")
    return figure


def plot_rates(study: CaseSeries) -> Figure:
    """Observed over expected outcomes by year, before and after the model's effects of time."""
    yearly = study.monthly.groupby("year")[["observed", "expected", "adjusted"]].sum()
    enough = ~yearly["observed"].map(lambda n: small(int(n), study.settings.min_cell))
    axis, figure = _one(7.4, 3.0)
    axis.axhline(1, color=MUTED, lw=0.8, ls=(0, (3, 3)))
    same = np.allclose(yearly["expected"], yearly["adjusted"])
    for column, colour, label in (
        ("expected", MUTED, "constant rate"),
        ("adjusted", BLUE, "with the model's effects of time"),
    ):
        if column == "adjusted" and same:
            continue
        shown = yearly[enough & (yearly[column] > 0)]
        ratio = shown["observed"] / shown[column]
        axis.plot(shown.index + 0.5, ratio, "o", ms=3.5, color=colour, label=label)
    axis.set(xlabel="Calendar year", ylabel="Observed over expected outcomes", ylim=(0, None))
    if not same:
        axis.legend(loc="upper left")
    return figure


def plot_splines(study: CaseSeries) -> Figure:
    """The effects of age, season and calendar time with pointwise bands."""
    assert study.effects is not None
    effects = study.effects.effects
    figure = _figure(2.9 * len(effects) + 0.8, 3.0)
    for axis, effect in zip(np.atleast_1d(figure.subplots(1, len(effects))), effects, strict=True):
        x, shown, label = _abscissa(effect)
        curve, se = spline_curve(study, effect, x)
        if se is not None:
            q = float(norm.ppf(0.5 + study.settings.level / 2))
            axis.fill_between(
                shown, np.exp(curve - q * se), np.exp(curve + q * se), color=BLUE, alpha=0.18, lw=0
            )
        axis.plot(shown, np.exp(curve), color=BLUE, lw=1.6)
        axis.axhline(1, color=MUTED, lw=0.8, ls=(0, (3, 3)))
        axis.set(xlabel=label, yscale="log")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_formatter(lambda value, _: "")
        _clean(axis)
    figure.axes[0].set_ylabel("Rate ratio")
    return figure


def spline_curve(
    study: CaseSeries, effect: TimeEffect, x: NDArray
) -> tuple[NDArray, NDArray | None]:
    """Log rate ratio at x against its mean over x, and its standard error where there is one."""
    basis = effect.basis(x)
    centred = basis - basis.mean(axis=0)
    beta = study.effect_coefficients(effect)
    if study.model.estimator is None or not np.isfinite(beta).all():
        return np.full(len(x), np.nan), None
    names = study.effect_names(effect)
    try:
        V = study.model.estimator.vcov().loc[names, names].to_numpy()
    except DataError:  # beside covariates under a Laplace prior there are no standard errors
        return centred @ beta, None
    return centred @ beta, np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", centred, V, centred), 0))


def plot_profile(study: CaseSeries, covariate: str | None = None) -> Figure:
    """The likelihood profile of an exposure, less its maximum, with the interval."""
    name = covariate or next(iter(study.model.profiles))
    table, line = study.model.profiles[name], study.estimates.loc[name]
    axis, figure = _one(5.6, 3.2)
    fall = table["log_likelihood"] - study.model.log_likelihood
    axis.plot(np.exp(table["log_rr"]), fall, "o-", ms=3, lw=1.2, color=BLUE)
    drop = -(float(norm.ppf(0.5 + study.settings.level / 2)) ** 2) / 2
    axis.axhline(drop, color=MUTED, lw=0.8, ls=(0, (3, 3)))
    for side in ("lower", "upper"):
        if 0 < line[side] < math.inf:
            axis.axvline(line[side], color=FAINT, lw=1)
    axis.set(xscale="log", xlabel="Rate ratio", ylabel="Log-likelihood below its maximum")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    return figure


def plot_forest(study: CaseSeries) -> Figure:
    """Rate ratios of all drugs, shaded by the share of bootstrap draws that have them.

    As in figure 3 of Suchard and others (2013): the darker, the more often in the model.
    """
    lines = forest_lines(study)
    figure = _figure(6.8, 0.9 + 0.24 * max(len(lines), 1))
    axis = figure.subplots()
    axis.axvline(1, color=MUTED, lw=0.8)
    for y, (_, rr, low, high, share) in enumerate(reversed(lines)):
        alpha = 0.15 + 0.85 * share
        if math.isfinite(low) and math.isfinite(high) and high > 0:
            axis.plot([max(low, 1e-3), high], [y, y], color=BLUE, lw=1.4, alpha=alpha)
        axis.plot(rr, y, "s", ms=4.5, color=BLUE, alpha=alpha)
    names = [_short(title_case(name.partition(": ")[2] or name), 44) for name, *_ in lines]
    axis.set_yticks(range(len(lines)), names[::-1], fontsize=8)
    axis.set(xscale="log", xlabel="Rate ratio", ylim=(-0.7, len(lines) - 0.3))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_formatter(lambda value, _: "")
    _clean(axis)
    return figure


def forest_lines(study: CaseSeries) -> list[tuple[str, float, float, float, float]]:
    """Name, rate ratio, limits and share of the drugs that are farthest from one."""
    pairs = zip(study.intervals.names, study.intervals.columns, strict=True)
    e = study.estimates.loc[[n for n, c in pairs if c.window >= 0 and not c.pre_exposure]]
    e = e[np.isfinite(e["log_rr"])]
    draws = study.model.bootstrap
    if draws is None:
        share = (e["log_rr"] != 0).astype(float)
        low, high = e["lower"], e["upper"]
    else:
        share, low, high = (draws.loc[e.index, c] for c in ("share", "lower", "upper"))
    table = e.assign(share=share, low=low, high=high)
    table = table[(table["log_rr"] != 0) | (table["share"] > 0)]
    first = table.sort_values(["share", "log_rr"], key=lambda s: -s.abs(), kind="stable").head(
        MOST_IN_FOREST
    )
    ranked = first.sort_values("log_rr", ascending=False, kind="stable")
    return [
        (str(n), float(v["rr"]), float(v["low"]), float(v["high"]), float(v["share"]))
        for n, v in ranked.iterrows()
    ]


def _abscissa(effect: TimeEffect) -> tuple[NDArray, NDArray, str]:
    """Points of a curve, the same in the reader's unit, and its label."""
    if effect.kind == "season":
        x = np.linspace(0.5, 12.5, 145)
        return x, x, "Month"
    x = np.linspace(effect.knots[0], effect.knots[-1], 200)
    if effect.kind == "age":
        return x, x / 365.25, "Age in years"
    return x, x / 12, "Calendar year"


def _one(width: float, height: float) -> tuple[Axes, Figure]:
    figure = _figure(width, height)
    axis = figure.subplots()
    _clean(axis)
    return axis, figure


def _figure(width: float, height: float) -> Figure:
    need("matplotlib")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _clean(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(length=3)


def _short(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


PICTURES = {
    "time to event": plot_time_to_event,
    "event to end": plot_event_to_end,
    "spans": plot_spans,
    "rates": plot_rates,
    "splines": plot_splines,
    "profile": plot_profile,
    "forest": plot_forest,
}
