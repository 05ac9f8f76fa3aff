"""The two files of a study: one self-contained HTML page, and one JSON file with every number."""

from __future__ import annotations

import contextlib
import html
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from steropes import __version__
from steropes.errors import DataError
from steropes.studies.beside_page import beside_parts, source_line
from steropes.studies.disclosure import Bound
from steropes.studies.numbers import study_json
from steropes.studies.page.canvas import Picture
from steropes.studies.pictures import (
    attrition_picture,
    balance_pictures,
    preference_picture,
    survival_picture,
)
from steropes.studies.published import Published, publish
from steropes.studies.verdicts import NOT_SHOWN, Judged, rounded_difference
from steropes.studies.wording import (
    analysis_name,
    checks,
    count,
    decimals,
    p_value,
    percent,
    risk_period,
    title_case,
)

if TYPE_CHECKING:
    from steropes.studies.comparative import ComparativeStudy

__all__ = ["output_folder", "study_page", "write_report"]

TOP_ROWS = 20


def write_report(study: ComparativeStudy, folder: str | Path) -> list[Path]:
    """Write ``report.html`` and ``study.json`` into ``folder``: both whole, or neither."""
    folder = output_folder(folder)
    texts = {"report.html": study_page(study), "study.json": study_json(study)}
    for name in texts:
        if (folder / name).is_dir():
            raise DataError(f"cannot write to the folder {folder}: {name} is a folder there")
    _remove_old_drafts(folder, texts)
    waiting: list[Path] = []  # complete files under other names, until all of them are
    try:
        for name, text in texts.items():
            handle, hidden = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
            waiting.append(Path(hidden))
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(hidden, 0o666 & ~mask)  # mkstemp lets nobody else read
        return [draft.replace(folder / name) for draft, name in zip(waiting, texts, strict=True)]
    except OSError as error:
        raise DataError(f"cannot write to the folder {folder}: {error.strerror}") from error
    finally:
        for draft in waiting:
            draft.unlink(missing_ok=True)


def _remove_old_drafts(folder: Path, names: Iterable[str]) -> None:
    """Remove what a process left that was killed while it wrote; writing takes no hour."""
    for name in names:
        for draft in folder.glob(f".{name}.*"):
            with contextlib.suppress(OSError):
                if time.time() - draft.stat().st_mtime > 3600:
                    draft.unlink()


def output_folder(folder: str | Path) -> Path:
    """Make the folder if need be and make sure that it can be written to.

    Raises
    ------
    DataError
        The folder cannot be made or written to.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(f"cannot write to the folder {folder}: {error.strerror}") from error
    return folder


def study_page(study: ComparativeStudy) -> str:
    """The study as one HTML page without outside references."""
    target, comparator, outcome = (_safe(title_case(name)) for name in study.names.values())
    title = f"{target} compared with {comparator}: {outcome}"
    public = publish(study)
    sections = (
        _head(study, public, title),
        _diagnostics(public),
        _results(study, public),
        _attrition(study, public),
        _propensity(study, public),
        _balance(study, public),
        _methods(study),
        _settings(study),
    )
    room = files("steropes.studies")
    sheets = (room / "page" / "palette.css", room / "report.css", room / "page" / "figures.css")
    style = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + f"\n<footer>Made by steropes {__version__}. Every number on this page, and more, "
        "is in study.json beside it.</footer>\n</main>\n</body>\n</html>\n"
    )


def _head(study: ComparativeStudy, public: Published, title: str) -> str:
    boxes = "".join(
        f'<div class="card{" main" if i == 0 else ""}"><b>{value}</b><span>{text}</span></div>'
        for i, (value, text) in enumerate(_cards(study, public))
    )
    found = "".join(
        f'<li class="{"ok" if c.passed else "warn"}">{_safe(c.finding)}</li>'
        for c in checks(study, public)
    )
    source = f" in “{_safe(study.source)}”" if study.source else ""
    versions = source_line(study)
    told = f" ({_safe(versions)})" if versions else ""
    return (
        f'<h1>{title}</h1>\n<p class="lead">A new-user cohort study{source}{told}, matched on the '
        f'propensity score.</p>\n<div class="cards">{boxes}</div>\n<ul class="checks">{found}</ul>'
    )


def _cards(study: ComparativeStudy, public: Published) -> list[tuple[str, str]]:
    """The four numbers at the top, those there are."""
    line = public.main_line()
    first = (
        decimals(line["hr"]),
        f"hazard ratio among the matched, 95% interval {decimals(line['lower'])} to "
        f"{decimals(line['upper'])}, p&nbsp;{_p(line['p'])}",
    )
    if line["note"] == NOT_SHOWN:
        first = ("Not shown", "the hazard ratio, because the study fails a diagnostic")
    elif line["note"]:
        first = ("No estimate", _safe(line["note"]))
    cards = [first]
    if study.propensity is not None:
        pairs, events = (_safe(count(n)) for n in (public.pairs, line["events"]))
        cards.append((pairs, f"matched pairs, {events} events"))
        auc = "AUC of the propensity model (0.5: groups alike)"
        cards.append((decimals(study.propensity.auc), auc))
    if study.balance is not None and study.pairs:
        before, after = (decimals(_largest(study, when)) for when in ("before", "after"))
        what = "largest standardised difference, before and after matching"
        cards.append((f"{before} → {after}", what))
    return cards


def _largest(study: ComparativeStudy, when: str) -> float:
    assert study.balance is not None
    largest = float(study.balance[f"smd_{when}"].abs().max())
    return rounded_difference(largest, study.settings.min_cell)


def _diagnostics(public: Published) -> str:
    """All diagnostics, what they hide and how to see it."""
    rows = []
    for v in public.verdicts:
        about = f"<br><small>{_safe(v.about)}</small>" if v.about else ""
        kind = f' class="{v.verdict}"' if v.verdict == "FAIL" else ""
        said = f"<span{kind}>{v.verdict.lower()}</span>"
        rows.append((_safe(title_case(v.name)) + about, _found(v), _safe(v.rule), said))
    least = (
        "An estimate that fails a diagnostic is not shown unless it is asked for; precision and "
        "equal scores do not hide it."
    )
    if public.blinded:
        told = (
            "<p>This study fails. Its hazard ratios, by whatever way to adjust, the outcomes and "
            "rates of the arms and their survival curves are therefore left out of this page, of "
            "study.json and of the terminal: an estimate that may be wrong for a known reason is "
            "not to sway anybody. To see them run the study again with <code>--unblind</code> "
            "(in Python, <code>StudySettings(…, unblind=True)</code>).</p>"
        )
    elif public.failed:
        told = (
            "<p>This study fails, and its estimate would not be shown if that had not been asked "
            "for (<code>--unblind</code>).</p>"
        )
    else:
        told = ""
    head = ("Diagnostic", "Found", "To pass", "Verdict")
    return f"<h2>May the result be read?</h2>\n{told}" + _table(head, rows, least)


def _found(v: Judged) -> str:
    value = v.value
    if value is None or isinstance(value, Bound):
        return "–" if value is None else _safe(str(value))
    return f"{value:g}" if v.name.startswith("precision") else decimals(value)


def _results(study: ComparativeStudy, public: Published) -> str:
    hazards = [
        (
            title_case(analysis_name(line["analysis"])),
            _safe(count(line["people"])),
            _safe(count(line["events"])),
            "not shown" if line["note"] == NOT_SHOWN else decimals(line["hr"]),
            _interval(line["lower"], line["upper"]),
            _safe(p_value(line["p"])),
        )
        for line in public.hazard_ratios
    ]
    when = {"all": "before matching", "matched": "matched"}
    rates = [
        (
            f"{_safe(title_case(study.names[line['arm']]))}, {when[line['analysis']]}",
            _safe(count(line["people"])),
            count(line["person_years"]),
            _safe(count(line["events"])),
            decimals(line["rate"]),
            _interval(line["rate_lower"], line["rate_upper"]),
        )
        for line in public.rates
    ]
    heads = ("Arm", "People", "Person-years", "Events", "Per 1,000 years", "95% interval")
    parts = [
        "<h2>Result</h2>\n",
        _table(
            ("Among", "People", "Events", "Hazard ratio", "95% interval", "p"),
            hazards,
            f"Hazard ratio of {_safe(study.names['target'])} against "
            f"{_safe(study.names['comparator'])}; above 1 means more events.",
        ),
    ]
    if study.pairs >= max(study.settings.min_cell, 1):
        parts.append(_picture(survival_picture(study, public), _survival_caption(study)))
    parts.append(
        _table(
            heads,
            rates,
            "Events and incidence rates, of everybody before matching and of the matched."
            + (" Events of the arms are not shown." if public.blinded else ""),
        )
    )
    if public.detectable is not None and public.detectable < float("inf"):
        parts.append(
            "<p>With the events of the matched people, a hazard ratio of "
            f"{decimals(public.detectable)} would have been found with a probability of 80%.</p>"
        )
    return "".join((*parts, *beside_parts(study, public)))


def _survival_caption(study: ComparativeStudy) -> str:
    caption = (
        "Kaplan–Meier curves of the matched people with pointwise 95% bands. The vertical axis "
        "need not start at zero; the picture ends soon after the last event."
    )
    least = study.settings.min_cell
    return caption + (f" Each step stands for {least} events or more." if least > 1 else "")


def _interval(lower: float | None, upper: float | None) -> str:
    ends = [decimals(lower), decimals(upper)]
    return "–" if ends == ["–", "–"] else " to ".join(ends)


def _attrition(study: ComparativeStudy, public: Published) -> str:
    rows = []
    for line in public.attrition:
        row = [_safe(title_case(line["rule"]))]
        for arm in ("target", "comparator"):
            dropped = line[f"{arm}_dropped"]
            gone = count(dropped) if dropped != 0 else ""
            sign = "−" if isinstance(dropped, int) and dropped else ""
            row += [_safe(count(line[arm])), _safe(sign + gone)]
        rows.append(tuple(row))
    names = tuple(_safe(title_case(study.names[arm])) for arm in ("target", "comparator"))
    least = study.settings.min_cell
    hidden = (
        f" Counts of fewer than {least} people are shown as “&lt;{least}”, and a count from which "
        "one would follow is shown as a limit, or as a dash."
        if least > 1
        else ""
    )
    return (
        "<h2>Who was studied</h2>\n<p>The rules in the order in which they were applied, with the "
        f"people left and the people dropped.{hidden}</p>\n"
        + _picture(attrition_picture(study, public), "What each rule leaves of both arms.")
        + _table(("Rule", names[0], "dropped", names[1], "dropped"), rows)
    )


def _propensity(study: ComparativeStudy, public: Published) -> str:
    fit = study.propensity
    if fit is None or study.covariates is None:
        return f"<h2>Propensity score</h2>\n<p>None was fitted: {_safe(study.ended)}.</p>"
    strongest = fit.coefficients.iloc[1 : TOP_ROWS // 2 + 1]
    rows = [
        (_safe(line.name_), decimals(line.coef))
        for line in strongest.rename(columns={"name": "name_"}).itertuples()
    ]
    return (
        "<h2>Propensity score</h2>\n"
        f"<p>Of {count(len(study.covariates.columns))} covariates, {len(fit.coefficients) - 1} "
        f"have a coefficient; the area under the ROC curve is {decimals(fit.auc, 3)}. "
        f"Cross-validation chose a prior variance of {fit.model.variance_:.3g}.</p>\n"
        + _picture(
            preference_picture(study),
            "Preference score: the propensity score adjusted for how common each drug is. People "
            "in the grey band could well have been given either drug.",
        )
        + _table(
            ("Strongest covariates", "Log odds ratio"),
            rows,
            f"Positive: more likely to get {_safe(study.names['target'])}.",
        )
    )


def _balance(study: ComparativeStudy, public: Published) -> str:
    if study.balance is None or study.covariates is None:
        return ""
    rows = []
    for line in public.balance[:TOP_ROWS]:
        row = [_safe(str(line["covariate"]))]
        for when in ("before", "after"):
            row += [_safe(percent(line[f"{arm}_{when}"])) for arm in ("target", "comparator")]
            row.append(decimals(line[f"smd_{when}"], 2))
        rows.append(tuple(row))
    names = (_safe(title_case(study.names[arm])) for arm in ("target", "comparator"))
    three = (*names, "Difference")
    domains = [
        (_safe(title_case(line.domain)), count(line.kept), count(line.rare), count(line.redundant))
        for line in study.covariates.dropped.itertuples()
    ]
    pictures = ""
    if study.pairs:
        captions = (
            "Absolute standardised mean difference of each covariate. Below the dashed horizontal "
            "line at 0.1, a covariate counts as balanced.",
            "The covariates that differ most, after matching and before it.",
        )
        drawn = zip(balance_pictures(public), captions, strict=True)
        pictures = "".join(_picture(picture, caption) for picture, caption in drawn)
    least = study.settings.min_cell
    rounded = f"; prevalences to the nearest {least} people" if least > 1 else ""
    return (
        "<h2>Covariate balance</h2>\n"
        + pictures
        + _table(
            ("Covariate", *three, *three),
            rows,
            f"The {len(rows)} covariates most unequal before matching: prevalence in each arm and "
            f"standardised difference{rounded}.",
            above="<td></td>"
            + "".join(f'<th colspan="3">{when} matching</th>' for when in ("Before", "After")),
        )
        + _table(
            ("Covariates", "Kept", "Dropped: rare", "Dropped: redundant"),
            domains,
            "Columns of the propensity model by kind. Redundant: everybody has it, or it is the "
            "complement of another.",
        )
    )


def _methods(study: ComparativeStudy) -> str:
    s = study.settings
    target, comparator, outcome = (_safe(study.names[role]) for role in study.names)
    paragraphs = (
        f"<b>People.</b> Whoever used {target} or {comparator} is in the arm of the drug that "
        "they began first, on the day of its first era (the start); people who began both on one "
        f"day are left out. They must have been under observation for {s.washout_days} days "
        f"before the start without a gap, and never have had {outcome} recorded up to and "
        "including the start.",
        f"<b>Outcome.</b> The first record of {outcome}. People are at risk {risk_period(s)}; "
        "whoever reaches that end without the outcome is censored there.",
        "<b>Covariates.</b> Age in five-year groups, sex, calendar year of the start, and one "
        "yes-or-no covariate for each condition, drug ingredient, procedure, measurement and "
        f"observation recorded in the {s.window_days} days up to and including the start, the two "
        f"study drugs excepted. Covariates of fewer than {s.min_people} people or less than "
        f"{100 * s.min_share:g}% of them are left out.",
        "<b>Propensity score.</b> Logistic regression of the arm on all covariates with a Laplace "
        f"prior (a lasso), whose variance is the one that predicts best in {s.folds}-fold "
        "cross-validation.",
        "<b>Matching.</b> One to one: of all pairs of a person on each drug, the closest is taken "
        "first, and so on until no pair is left within "
        f"{s.caliper:g} standard deviations of the logit of the propensity score. Among people "
        "with equal scores a random key decides, made of the person’s id and the seed "
        f"{s.seed}; the order of the database has no say. The effect is that among the matched "
        "people.",
        "<b>Balance.</b> The standardised mean difference is the difference of two prevalences, "
        "divided by the root of the mean of their variances.",
        "<b>Effect.</b> Cox regression of the time to the outcome on the arm, ties after Efron, "
        "with Wald intervals: within matched pairs (stratified), among the matched people without "
        "regard to pairs, and among everybody without any adjustment, for comparison.",
        "<b>Limits.</b> Matching balances what is recorded. What the database does not hold, such "
        "as the severity of a disease or smoking, may still differ between the arms.",
    )
    return "<h2>How it was done</h2>\n" + "\n".join(f"<p>{p}</p>" for p in paragraphs)


def _settings(study: ComparativeStudy) -> str:
    lines = []
    for name, value in asdict(study.settings).items():
        shown = "none" if value in (None, ()) else str(value)
        if isinstance(value, dict):
            shown = ", ".join(f"{k} {'none' if v is None else f'{v:g}'}" for k, v in value.items())
        if name in study.names:
            shown = f"{shown} ({study.names[name]})"
        lines.append(f"<dt>{_safe(name)}</dt><dd>{_safe(shown)}</dd>")
    return "<h2>Settings</h2>\n<dl>" + "".join(lines) + "</dl>"


def _picture(picture: Picture | None, caption: str) -> str:
    return "" if picture is None else picture.figure(caption)


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", above: str = ""
) -> str:
    """A table; the cells are HTML already, and so is the row above the heads."""
    title = f"<caption>{caption}</caption>" if caption else ""
    head = "".join(f'<th scope="col">{h}</th>' for h in heads)
    over = above and f"<tr>{above}</tr>"
    body = "\n".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll"><table>{title}<thead>{over}<tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>\n"
    )


def _p(p: float) -> str:
    text = p_value(p)
    return _safe(text) if text.startswith(("<", "–")) else f"=&nbsp;{text}"


def _safe(text: str) -> str:
    return html.escape(str(text))
