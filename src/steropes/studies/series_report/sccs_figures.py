"""Figures of a case series, with released numbers only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from steropes.designs.case_series.calendar_time_splines import TimeEffect
from steropes.designs.values.dates_and_ages import DAYS_PER_YEAR
from steropes.studies.formatting.released_numbers import decimals, title_case
from steropes.studies.release.series_result_blinding import hidden_covariates
from steropes.studies.report.svg_canvas import Axes, Canvas, PagePicture, Picture
from steropes.studies.series_report.drug_forest import drug_forest

if TYPE_CHECKING:
    from steropes.studies.release.one_series_release import ReleasedSeries

__all__ = [
    "PICTURES",
    "before_alone",
    "event_to_end",
    "profile",
    "profiled",
    "rates",
    "spans",
    "spline_curve",
    "splines",
    "time_to_event",
]

HEIGHT = 220  # The height of a plot area in pixels.
FARTHEST = math.log(1000)  # The largest log rate ratio that is drawn.


def time_to_event(study: ReleasedSeries) -> Picture | None:
    """Draw outcomes by week around the first exposure, with hollow bars for small counts.

    None without outcomes, or with several exposures. If the effect is hidden, only the weeks
    before exposure are drawn, because later weeks would reveal it.
    """
    if len(study.exposures) != 1:
        return None
    t = study.release.weeks[next(iter(study.exposures))]
    before = before_alone(study)
    if before:
        t = t[t["week"] < 0]
    if not t["outcomes"].any():
        return None
    least = study.rules.least
    weeks, released = t["week"].to_numpy(), t["outcomes"].to_numpy()
    outcomes, few = np.abs(released), released < 0
    end = "to it" if before else "to half a year after it"
    description = (
        "Bars of outcomes in each week, from half a year before the start of the first exposure "
        f"{end}."
    )

    def draw(c: Canvas) -> None:
        """Draw the bars."""
        top = 1.08 * float(max(outcomes.max(), least))
        axes = Axes(c, (-26, 0 if before else 26), (0, top), 8, 8 + HEIGHT)
        for week, n, hidden in zip(weeks, outcomes, few, strict=True):
            if n:
                kind = "few" if hidden else "before" if week < 0 else "after"
                _bar(axes, week + 0.06, week + 0.94, float(least if hidden else n), kind)
        axes.across("weeks from the start of the first exposure")
        axes.up("outcomes")
        c.line(axes.x(0), axes.top, axes.x(0), axes.bottom, "guide")
        if few.any():
            y = axes.bottom + 58
            _swatch(c, axes.left, y, "few", f"fewer than {least}")

    return Picture("time-to-event", description, draw)


def before_alone(study: ReleasedSeries) -> bool:
    """Check whether only weeks before exposure are drawn, because its effect is hidden."""
    return next(iter(study.exposures), None) in hidden_covariates(study)


def event_to_end(study: ReleasedSeries) -> Picture | None:
    """Draw the time from outcomes to the end of observation, by the reason of the end."""
    t = study.release.ends
    edges = np.append(t["start"], t["stop"].iloc[-1:])
    shown = []
    for name, kind, label in (
        ("ended", "comparator", "observation ended"),
        ("data_ended", "middle", "the data or the study ended"),
    ):
        counts = np.maximum(t[name].to_numpy(), 0)
        if counts.any():
            shown.append((counts, kind, label))
    if not shown:
        return None

    def draw(c: Canvas) -> None:
        """Draw the histograms."""
        top = 1.08 * float(max(counts.max() for counts, _, _ in shown))
        axes = Axes(c, (0, float(edges[-1])), (0, top), 8, 8 + HEIGHT)
        y = axes.bottom + 58
        for counts, kind, label in shown:
            corners = np.repeat(edges, 2)[1:-1], np.repeat(counts, 2)
            ground = axes.at((edges[-1], edges[0]), (0, 0))
            c.curve([*axes.at(*corners), *ground], f"area {kind}", closed=True)
            _swatch(c, axes.left, y, kind, label)
            y += 20
        axes.across("years until observation ends")
        axes.up("outcomes")

    description = "Outcomes by the remaining time of observation."
    return Picture("event-to-end", description, draw)


def spans(study: ReleasedSeries) -> Picture | None:
    """Draw the number of cases whose time covers each month of age and of the calendar."""
    a, c = (study.release.tables[f"sccs_{of}_spanning"] for of in ("age", "calendar_time"))
    panels = [
        ("age in years", (a["age_month"] + 0.5) / 12, a),
        ("calendar year", c["calendar_year"] + (c["calendar_month"] - 0.5) / 12, c),
    ]
    cases = "cover_before_after_subjects"
    drawn = [
        (label, x.to_numpy(float), np.maximum(t[cases].to_numpy(float), 0))
        for label, x, t in panels
        if t[cases].gt(0).any()
    ]
    if not drawn:
        return None

    def draw(c: Canvas) -> None:
        """Draw one panel per time scale."""
        y = 8.0
        for label, x, n in drawn:
            axes = Axes(c, (x[0], max(x[-1], x[0] + 1)), (0, 1.08 * n.max()), y, y + 150)
            ground = axes.at((x[-1], x[0]), (0, 0))
            c.curve([*axes.at(x, n), *ground], "area target", closed=True)
            axes.across(label, plain=True)
            axes.up("cases")
            y = axes.bottom + 56

    description = "Cases whose time covers a month and the months before and after it, by " + (
        " and by ".join(label for label, _, _ in drawn)
    )
    return Picture("spans", description + ".", draw)


def rates(study: ReleasedSeries) -> Picture | None:
    """Draw observed over expected outcomes by year, without and with effects of time."""
    series = []
    for column, kind, label in (
        ("expected", "hollow", "at a constant rate"),
        ("adjusted", "target", "with the model’s effects of time"),
    ):
        ratio = study.release.yearly[column].dropna()
        if len(ratio):
            series.append((ratio.index.to_numpy(float) + 0.5, ratio.to_numpy(float), kind, label))
    if not series:
        return None

    def draw(c: Canvas) -> None:
        """Draw one series of dots per model."""
        years = np.concatenate([x for x, *_ in series])
        top = 1.1 * max(1.0, *(float(v.max()) for _, v, *_ in series))
        ends = (math.floor(years.min()), math.ceil(years.max()))
        axes = Axes(c, ends, (0, top), 8, 8 + HEIGHT)
        c.line(axes.left, axes.y(1), axes.right, axes.y(1), "guide")
        y = axes.bottom + 58
        for x, ratio, kind, label in series:
            for a, b in axes.at(x, ratio):
                c.dot(a, b, kind, 3.5)
            c.dot(axes.left + 5, y - 4, kind)
            c.text(axes.left + 16, y, label)
            y += 20
        axes.across("calendar year", plain=True)
        axes.up("observed over expected")

    return Picture("rates", "Observed over expected outcomes by calendar year.", draw)


def splines(study: ReleasedSeries) -> Picture | None:
    """Draw the effects of age, season and calendar time relative to their mean, with bands."""
    if study.effects is None or study.model.status != "OK":
        return None
    panels = [*_curves(study)]
    if not panels:
        return None

    def draw(c: Canvas) -> None:
        """Draw one panel per effect."""
        y = 8.0
        for x, curve, se, label in panels:
            z = float(norm.ppf(0.5 + study.settings.level / 2))
            width = 0.0 if se is None else z * se
            low, high = (float((curve - width).min()), float((curve + width).max()))
            # With few outcomes, a band may be almost unbounded.
            ends = (
                max(min(low, math.log(0.9)), -FARTHEST),
                min(max(high, math.log(1.1)), FARTHEST),
            )
            axes = Axes(c, (float(x[0]), float(x[-1])), ends, y, y + 180, log_y=True)
            c.line(axes.left, axes.y(0), axes.right, axes.y(0), "guide")
            if se is not None:
                upper, lower = (np.clip(curve + side * width, *ends) for side in (1, -1))
                around = [*axes.at(x, upper), *axes.at(x, lower)[::-1]]
                c.curve(around, "band target", closed=True)
            c.curve(axes.at(x, np.clip(curve, *ends)), "curve target")
            axes.across(label, plain=True)
            axes.up("rate ratio")
            y = axes.bottom + 56

    labels = " and ".join(label for *_, label in panels)
    return Picture("splines", f"Rate ratio by {labels}, relative to its mean.", draw)


def _curves(study: ReleasedSeries) -> Iterator[tuple[NDArray, NDArray, NDArray | None, str]]:
    """Yield points, displayed points, curve, standard errors and label of each finite effect."""
    assert study.effects is not None
    for effect in study.effects.effects:
        x, shown, label = _abscissa(effect)
        curve, se = spline_curve(study, effect, x)
        if np.isfinite(curve).all():
            yield shown, curve, se, label


def spline_curve(
    study: ReleasedSeries, effect: TimeEffect, x: NDArray
) -> tuple[NDArray, NDArray | None]:
    """Return the log rate ratio at x relative to its mean over x, and its standard error."""
    basis = effect.basis(x)
    centred = basis - basis.mean(axis=0)
    beta = study.effect_coefficients(effect)
    if study.model.fits is None or not np.isfinite(beta).all():
        return np.full(len(x), np.nan), None
    names = study.effect_names(effect)
    covariance = study.model.fits.covariance()
    if covariance is None:  # With covariates under a Laplace prior there are no standard errors.
        return centred @ beta, None
    V = covariance.loc[names, names].to_numpy()
    return centred @ beta, np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", centred, V, centred), 0))


def profile(study: ReleasedSeries, covariate: str | None = None) -> Picture | None:
    """Draw the likelihood profile of an exposure, relative to its maximum, with the interval.

    Default: the first exposure with a profile that may be shown. None if there is none.
    """
    shown = profiled(study)
    name = covariate or next(iter(shown), "")
    if name not in shown:
        return None
    table, line = study.model.profiles[name], study.estimates.loc[name]
    x = table["log_rr"].to_numpy(float)
    top = study.model.log_likelihood - study.model.penalty
    fall = np.minimum(table["log_likelihood"].to_numpy(float) - top, 0.0)
    drop = -(float(norm.ppf(0.5 + study.settings.level / 2)) ** 2) / 2
    ends = [float(line[side]) for side in ("lower", "upper")]
    if not np.isfinite(fall).any():
        return None
    # Deep enough to show the limits, and no deeper than useful.
    least = min(max(float(np.nanmin(fall)), 6 * drop), 1.25 * drop)
    near = np.isfinite(fall) & (fall >= least)
    if near.sum() < 2:  # An infinite estimate is far from all points.
        near = np.isfinite(fall)
        least = min(least, float(fall[near].min()))
    x, fall = x[near], fall[near]

    def draw(c: Canvas) -> None:
        """Draw the profile and its interval."""
        axes = Axes(
            c, (x.min(), max(x.max(), x.min() + 0.1)), (least, 0.0), 8, 8 + HEIGHT, log=True
        )
        c.line(axes.left, axes.y(drop), axes.right, axes.y(drop), "guide")
        for end in ends:
            if 0 < end < math.inf and axes.xs[0] <= math.log(end) <= axes.xs[1]:
                c.line(axes.x(math.log(end)), axes.top, axes.x(math.log(end)), axes.bottom, "grid")
        c.curve(axes.at(x, fall), "curve target")
        for a, b in axes.at(x, fall):
            c.dot(a, b, "target", 2.5)
        axes.across("rate ratio")
        axes.up("log-likelihood below its maximum")

    description = "Likelihood profile of the rate ratio."
    if all(0 < end < math.inf for end in ends):
        description += f" The interval is {decimals(ends[0])} to {decimals(ends[1])}."
    return Picture("profile", description, draw)


def profiled(study: ReleasedSeries) -> list[str]:
    """List the covariates with a profile that may be shown."""
    hidden = hidden_covariates(study)
    return [
        name for name in study.model.profiles if name not in hidden and study.release.profiled(name)
    ]


def _abscissa(effect: TimeEffect) -> tuple[NDArray, NDArray, str]:
    """Return the points of a curve, the same points in the displayed unit, and its label."""
    if effect.kind == "season":
        x = np.linspace(0.5, 12.5, 145)
        return x, x, "month"
    x = np.linspace(effect.knots[0], effect.knots[-1], 200)
    if effect.kind == "age":
        return x, x / DAYS_PER_YEAR, "age in years"
    return x, x / 12, "calendar year"


def _bar(axes: Axes, left: float, right: float, height: float, kind: str) -> None:
    """Draw a bar."""
    corners = axes.at((left, left, right, right), (0, height, height, 0))
    axes.canvas.curve(corners, f"bar {kind}", closed=True)


def _swatch(c: Canvas, x: float, y: float, kind: str, label: str) -> None:
    """Draw a line of a legend: a small area with its label."""
    square = [(x, y - 11), (x + 14, y - 11), (x + 14, y + 1), (x, y + 1)]
    c.curve(square, f"bar {kind}" if kind == "few" else f"area {kind}", closed=True)
    c.text(x + 22, y, label)


def bands(study: ReleasedSeries) -> str:
    """Describe the confidence bands of the splines."""
    if study.effects is None:
        return ""
    shown = [spline_curve(study, e, e.knots)[1] for e in study.effects.effects]
    if any(se is None for se in shown):
        return (
            "No bands are shown, because a model with covariates under a Laplace prior has no "
            "standard errors; the curves ignore the selection by the prior."
        )
    text = f"The bands are {100 * study.settings.level:g}% pointwise intervals."
    if any(e.penalized for e in study.effects.effects):
        text += (
            " Penalised curves are shrunk towards their mean by the prior; their bands are those "
            "of the posterior at a given variance and may miss the true curve where data are few."
        )
    elif any(c.penalized for c in study.intervals.columns):
        text += " They condition on the variance of the other covariates’ prior."
    return text


def _profile_caption(study: ReleasedSeries) -> str:
    """Describe the likelihood profile."""
    hides = bool(hidden_covariates(study))
    of = title_case(next(iter(profiled(study)), "")) if hides else "the exposure"
    return f"Likelihood profile of {of}; the interval ends where it crosses the dashed line."


def _drugs_caption(study: ReleasedSeries) -> str:
    """Describe the forest plot of drugs."""
    said = "Rate ratio of each drug."
    if hidden_covariates(study):
        said += " Drugs that fail a diagnostic are not shown."
    if study.model.bootstrap is not None:
        said += (
            " Stronger colours mean a larger share of bootstrap draws with the drug in the model."
        )
    return said


def _weeks_caption(study: ReleasedSeries) -> str:
    """Describe the outcomes by week."""
    if before_alone(study):
        return (
            "Outcomes by week before the start of the first exposure; later weeks would reveal the "
            "effect."
        )
    return "Outcomes by week around the start of the first exposure."


# The pictures of the page in their order, each with its section and its caption.
PICTURES: tuple[PagePicture[ReleasedSeries], ...] = (
    PagePicture("profile", "results", profile, _profile_caption),
    PagePicture("drugs", "results", drug_forest, _drugs_caption),
    PagePicture("time-to-event", "timing", time_to_event, _weeks_caption),
    PagePicture(
        "spans",
        "timing",
        spans,
        "Cases whose time covers a month and the months before and after it; where they are few, "
        "effects of time are uncertain.",
    ),
    PagePicture(
        "splines",
        "timing",
        splines,
        lambda study: (
            f"Effects of time in the model, relative to their mean. {bands(study)}".rstrip()
        ),
    ),
    PagePicture(
        "rates",
        "diagnostics",
        rates,
        "Observed over expected outcomes by calendar year, without first and last years with few.",
    ),
    PagePicture(
        "event-to-end",
        "diagnostics",
        event_to_end,
        "Time from an outcome to the end of observation. Many early ends suggest that the outcome "
        "ends observation.",
    ),
)
