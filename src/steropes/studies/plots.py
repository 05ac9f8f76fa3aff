"""The pictures of a study, as matplotlib figures; no window, no global state."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from steropes.studies._extras import need
from steropes.studies.effects import DAYS_PER_YEAR
from steropes.studies.published import Published, published_at_risk
from steropes.studies.wording import count, title_case

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from steropes.data.kaplan_meier import KaplanMeier
    from steropes.studies.comparative import ComparativeStudy

__all__ = ["density", "figure_svg", "plot_balance", "plot_preference", "plot_survival"]

# Okabe and Ito's blue and vermilion: told apart by colour-blind readers, and in grey.
COLOURS = {"target": "#0072B2", "comparator": "#D55E00"}
INK, MUTED, FAINT = "#1b1f24", "#5b6470", "#d9dde2"
STYLE = {
    "svg.hashsalt": "steropes",  # the same picture is the same file
    "svg.fonttype": "path",
    "font.size": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.8,
    "legend.frameon": False,
}


def figure_svg(plot: Any, study: ComparativeStudy, public: Published) -> str:
    """Draw a picture of the study and return it as an SVG element, the same on every run."""
    matplotlib = need("matplotlib")
    with matplotlib.rc_context(STYLE):
        figure = plot(study, public)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def plot_preference(study: ComparativeStudy, public: Published) -> Figure:
    """Preference scores before and after matching: target above the line, comparator below."""
    figure = _figure(8.4, 3.6)
    axes = figure.subplots(1, 2, sharey=True)
    highest = 0.0
    least = max(study.settings.min_cell, 1)
    for axis, title, analysis, people in (
        (axes[0], "Before matching", "all", study.people),
        (axes[1], "After matching", "matched", study.matched),
    ):
        for value, arm, side in ((1, "target", 1), (0, "comparator", -1)):
            scores = people["preference"][people["treated"] == value].to_numpy()
            if len(scores) >= least:
                grid, height = density(scores)
                axis.fill_between(grid, side * height, color=COLOURS[arm], alpha=0.30, lw=0)
                axis.plot(grid, side * height, color=COLOURS[arm], lw=1.4)
                highest = max(highest, float(height.max()))
            axis.text(
                0.985,
                0.5 + side * 0.45,
                f"{_short(title_case(study.names[arm]), 28)}, "
                f"{count(public.count(analysis, arm, 'people'))}",
                transform=axis.transAxes,
                ha="right",
                va="center",
                color=COLOURS[arm],
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 2},
            )
        axis.axhline(0, color=MUTED, lw=0.8)
        for edge in (0.3, 0.7):
            axis.axvline(edge, color=MUTED, lw=0.8, ls=(0, (3, 3)), zorder=0)
        axis.set(title=title, xlabel="Preference score", xlim=(0, 1))
        _clean(axis)
    highest = highest or 1.0
    axes[0].set_ylim(-1.15 * highest, 1.15 * highest)
    axes[0].set_ylabel("Density")
    axes[0].yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    return figure


def plot_balance(study: ComparativeStudy, public: Published) -> Figure:
    """Absolute standardised mean difference of each covariate, before against after matching."""
    figure = _figure(5.6, 5.2)
    axis = figure.subplots()
    # what the tables show: exact places would give hidden cells away
    before, after = (
        np.array([abs(line[f"smd_{when}"]) for line in _both(public)])
        for when in ("before", "after")
    )
    end = max(0.12, 1.08 * float(max(before.max(initial=0), after.max(initial=0))))
    axis.plot([0, end], [0, end], color=FAINT, lw=1, zorder=0)
    for line in (axis.axhline, axis.axvline):
        line(0.1, color=MUTED, lw=0.8, ls=(0, (3, 3)), zorder=0)
    axis.plot(
        before,
        after,
        "o",
        ms=5,
        mfc=COLOURS["target"],
        mec="white",
        mew=0.5,
        alpha=0.65,
        clip_on=False,
        rasterized=len(before) > 3000,  # tens of thousands of dots would make a huge SVG
    )
    axis.set(
        xlim=(0, end),
        ylim=(0, end),
        xlabel="Standardised difference before matching",
        ylabel="Standardised difference after matching",
        aspect="equal",
    )
    absent = len(public.balance) - len(before)
    title = f"{len(before):,} covariates"
    if absent:
        title += f"; {absent:,} of too few people, or without limit, are not drawn"
    axis.set_title(title, loc="left", fontsize=10)
    _clean(axis)
    return figure


def _both(public: Published) -> list[dict[str, Any]]:
    """The covariates with a finite difference before and after."""
    sides = ("smd_before", "smd_after")
    return [
        line
        for line in public.balance
        if all(line[s] is not None and np.isfinite(line[s]) for s in sides)
    ]


def plot_survival(study: ComparativeStudy, public: Published) -> Figure:
    """Kaplan–Meier curves of the matched arms with 95 % bands and the numbers at risk."""
    figure = _figure(7.4, 4.9)
    axis, below = figure.subplots(2, 1, gridspec_kw={"height_ratios": [6, 1], "hspace": 0.02})
    everybody = study.curves()
    ticks, days, unit = _time_axis(everybody, max(study.pairs, 1))
    lowest = 1.0
    for arm, watched in everybody.items():
        curve = public.curves.get(arm)
        times = np.zeros(0) if curve is None else curve.times
        steps = [np.zeros(0)] * 3 if curve is None else [curve.survival, *curve.interval()]
        # the curve starts at 1 and ends with the follow-up, or just off the picture
        enough = watched.at_risk >= max(study.settings.min_cell, 1)
        end = max(float(watched.times[enough].max(initial=0.0)), float(times.max(initial=0.0)))
        at = np.concatenate(([0.0], times, [end])) / days
        shown = slice(0, np.searchsorted(at, ticks[-1], side="right") + 1)
        survival, low, high = (
            np.concatenate(([1.0], values, values[-1:] if len(values) else [1.0]))[shown]
            for values in steps
        )
        at, colour = at[shown], COLOURS[arm]
        axis.fill_between(at, low, high, step="post", color=colour, alpha=0.16, lw=0)
        axis.step(
            at, survival, where="post", color=colour, lw=1.8, label=title_case(study.names[arm])
        )
        lowest = min(lowest, float(low[at <= ticks[-1]].min()))
    axis.set(xlim=(0, ticks[-1]), ylim=(_floor(lowest), 1.0), xticks=ticks)
    axis.set_xlabel(f"Time since start ({unit})")
    axis.set_ylabel(f"Without {_short(study.names['outcome'], 48)}")
    axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
    axis.legend(loc="lower left", handlelength=1.4)
    axis.grid(axis="y", color=FAINT, lw=0.6)
    _clean(axis)
    _numbers_at_risk(below, everybody, study, ticks, days)
    return figure


def _numbers_at_risk(
    axis: Axes,
    curves: dict[str, KaplanMeier],
    study: ComparativeStudy,
    ticks: np.ndarray,
    days: float,
) -> None:
    names = study.names
    axis.set(xlim=(0, ticks[-1]), ylim=(-0.6, 2.2))
    axis.axis("off")
    lines: list[tuple[str, str, KaplanMeier | None]] = [("At risk", MUTED, None)]
    lines += [
        (_short(title_case(names[arm]), 16), COLOURS[arm], curve) for arm, curve in curves.items()
    ]
    for y, (label, colour, curve) in zip((1.9, 0.9, -0.1), lines, strict=True):
        axis.annotate(
            label, (0, y), xytext=(-22, 0), textcoords="offset points",
            ha="right", va="center", fontsize=9, color=colour,
        )  # fmt: skip
        if curve is None:
            continue
        numbers = published_at_risk(
            (still_at_risk(curve, t * days) for t in ticks), study.settings.min_cell
        )
        for t, number in zip(ticks, numbers, strict=True):
            axis.text(t, y, count(number), ha="center", va="center", fontsize=9)


def still_at_risk(curve: KaplanMeier, t: float) -> float:
    """People at risk just before t: those whose time is t or later."""
    i = int(np.searchsorted(curve.times, t, side="left"))
    return float(curve.at_risk[i]) if i < len(curve.at_risk) else 0.0


def _time_axis(curves: dict[str, KaplanMeier], pairs: int) -> tuple[np.ndarray, float, str]:
    """Ticks, days in a unit, and the unit: up to the last event, while enough people are left."""
    from matplotlib.ticker import MaxNLocator

    enough = max(5.0, 0.02 * pairs)
    watched = max(
        float(c.times[c.at_risk >= enough].max(initial=c.times[0])) for c in curves.values()
    )
    last = max(float(c.times[c.events > 0].max(initial=0.0)) for c in curves.values())
    end = min(watched, last or watched)
    days, unit = (DAYS_PER_YEAR, "years") if end > 3 * DAYS_PER_YEAR else (1.0, "days")
    ticks = MaxNLocator(8, steps=[1, 2, 3, 5, 6, 10], integer=True).tick_values(0, end / days)
    return np.array([t for t in ticks if t >= 0]), days, unit


def density(
    scores: np.ndarray, points: int = 201, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian kernel density on [0, 1], reflected at both ends so that none of it leaks out."""
    grid = np.linspace(0, 1, points)
    w = np.ones(len(scores)) if weights is None else weights
    spread = float(np.sqrt(np.average((scores - np.average(scores, weights=w)) ** 2, weights=w)))
    people = float(w.sum() ** 2 / (w**2).sum())  # that many would tell as much
    width = max(0.9 * spread * people**-0.2, 0.01)
    # binned first, so that a million people cost no more than a thousand
    fine = 4 * (points - 1)
    counts, edges = np.histogram(scores, fine, (0, 1), weights=weights)
    centres = (edges[1:] + edges[:-1]) / 2
    density = np.zeros(points)
    for images in (centres, -centres, 2 - centres):
        z = (grid[:, None] - images[None, :]) / width
        density += np.exp(-0.5 * z * z) @ counts
    return grid, density / (float(w.sum()) * width * np.sqrt(2 * np.pi))


def _floor(lowest: float) -> float:
    """A round lower end for the survival axis that leaves the curves most of the height."""
    for room in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75):
        if lowest >= 1 - room * 0.95:
            return 1 - room
    return 0.0


def _short(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _figure(width: float, height: float) -> Figure:
    need("matplotlib")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _clean(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(length=3)
