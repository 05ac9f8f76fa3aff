"""The page of a grid: every estimate with its verdicts, and the pictures behind them.

It is made of the result tables alone, from which small cells are gone. A result that fails a
diagnostic is not shown unless asked for.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from steropes import __version__
from steropes.errors import DataError
from steropes.studies.controls.calibration import fit_systematic_error, leave_one_out
from steropes.studies.grid.pictures import (
    balance_scatter,
    calibration_plot,
    forest,
    survival_curves,
)
from steropes.studies.grid.run import GridResults

__all__ = ["grid_page", "write_grid_report"]

KEY = ["target_comparator_id", "outcome_id", "analysis_id"]
UNITS = {"cox": "hazard ratio", "fine-gray": "subdistribution hazard ratio"}
UNITS |= {"logistic": "odds ratio", "poisson": "rate ratio"}
CHECKS = {
    "balance_diagnostic": ("Balance", "max_sdm"),
    "shared_balance_diagnostic": ("Shared balance", "shared_max_sdm"),
    "equipoise_diagnostic": ("Equipoise", "equipoise"),
    "generalizability_diagnostic": ("Generalisability", "generalizability_max_sdm"),
    "mdrr_diagnostic": ("Detectable ratio", "mdrr"),
    "ease_diagnostic": ("Systematic error", "ease"),
    "attrition_diagnostic": ("Target lost", "attrition_fraction"),
}
POPULATIONS = {
    "att": "people like the target's",
    "atu": "people like the comparator's",
    "ate": "everybody in either arm",
    "ato": "people who might have had either",
}


def write_grid_report(results: GridResults, folder: str | Path, *, unblind: bool = False) -> Path:
    """Write ``report.html`` into a folder, whole or not at all; returns its path.

    Parameters
    ----------
    results : GridResults
    folder : str or Path
    unblind : bool, default False
        Show estimates that fail a diagnostic too.
    """
    path = Path(folder) / "report.html"
    text = grid_page(results, unblind=unblind)
    try:
        handle, draft = tempfile.mkstemp(prefix=".report.", dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(draft, 0o666 & ~mask)
        return Path(draft).replace(path)
    except OSError as error:
        raise DataError(f"cannot write to the folder {folder}: {error.strerror}") from error


def grid_page(results: GridResults, *, unblind: bool = False) -> str:
    """The page as HTML, with everything in it."""
    room = files("steropes.studies")
    css = (room / "report.css").read_text("utf-8") + (room / "grid" / "report.css").read_text(
        "utf-8"
    )
    tables = results.tables
    names = dict(zip(tables["cohort"]["cohort_id"], tables["cohort"]["name"], strict=True))
    comparisons = tables["cm_target_comparator"].to_dict("records")
    body = [_head(results)]
    for comparison in comparisons:
        body += _comparison(results, comparison, names, unblind)
    body.append(_settings(results))
    title = "; ".join(
        f"{names.get(c['target_id'])} against {names.get(c['comparator_id'])}" for c in comparisons
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{css}</style></head><body><main>"
        + "".join(body)
        + f"<footer>steropes {__version__}</footer></main></body></html>\n"
    )


def _head(results: GridResults) -> str:
    t = results.tables
    about = t["database"].iloc[0]
    source = ", ".join(
        str(about[c]) for c in ("name", "release", "vocabulary") if isinstance(about[c], str)
    )
    found = t["cm_result"]
    checks = t["cm_diagnostics_summary"]
    cards = (
        (f"{len(t['cm_target_comparator'])}", "comparisons"),
        (f"{len(t['cm_analysis'])}", "analyses"),
        (f"{found['outcome_id'].nunique()}", "outcomes, with controls"),
        (f"{int(found['log_rr'].notna().sum())} of {len(found)}", "results have an estimate"),
        (f"{int(checks['unblind'].sum())}", "pass all diagnostics"),
    )
    shown = "".join(f'<div class="card"><b>{a}</b><span>{b}</span></div>' for a, b in cards)
    return (
        f"<h1>Comparative cohort studies</h1><p class='lead'>{escape(str(about['database_id']))}"
        f"{': ' + escape(source) if source else ''}</p><div class='cards'>{shown}</div>"
    )


def _comparison(
    results: GridResults, comparison: dict[str, Any], names: dict[int, str], unblind: bool
) -> list[str]:
    """One section for each pair of cohorts."""
    t = results.tables
    tc = comparison["target_comparator_id"]
    target, comparator = (
        str(names.get(comparison[c], comparison[c])) for c in ("target_id", "comparator_id")
    )
    parts = [f"<h2>{escape(target)} against {escape(comparator)}</h2>"]
    truth = t["cm_target_comparator_outcome"]
    truth = truth[truth["target_comparator_id"] == tc]
    shown = results.estimates(unblind)
    for outcome in truth.loc[truth["outcome_of_interest"] == 1, "outcome_id"]:
        of = shown[(shown["target_comparator_id"] == tc) & (shown["outcome_id"] == outcome)]
        parts += _outcome(results, of, str(names.get(outcome, outcome)), tc, outcome, unblind)
    parts += _adjustment(results, tc)
    parts += _controls(results, tc, names)
    return parts


def _outcome(
    results: GridResults, of: pd.DataFrame, name: str, tc: int, outcome: int, unblind: bool
) -> list[str]:
    """Estimates, verdicts, attrition and curves of one outcome."""
    analyses = {a.id: a for a in results.spec.analysis}
    rows, lines = [], []
    for line in of.itertuples(index=False):
        a = analyses[line.analysis_id]
        label = a.description or f"analysis {a.id}"
        rows.append((label, line.rr, line.ci_95_lb, line.ci_95_ub))
        effect = _effect(line.rr, line.ci_95_lb, line.ci_95_ub)
        why = line.note or ("" if line.unblind else "not shown: a diagnostic failed")
        lines.append(
            (
                label,
                UNITS[a.outcome_model.kind],
                POPULATIONS[line.target_estimator],
                effect or why or "none",
                _number(line.p, 3),
                _effect(line.calibrated_rr, line.calibrated_ci_95_lb, line.calibrated_ci_95_ub),
                *(
                    _people(line, arm, blind=not (line.unblind or unblind))
                    for arm in ("target", "comparator")
                ),
            )
        )
    head = (
        "Analysis",
        "Measure",
        "Effect among",
        "Estimate (95 %)",
        "p",
        "Calibrated",
        "Target (with it)",
        "Comparator (with it)",
    )
    unit = UNITS[results.spec.analysis[0].outcome_model.kind]
    parts = [
        f"<h3>{escape(name)}</h3>",
        _figure(forest(rows, unit), "All analyses side by side, with 95 % limits."),
        _table(head, lines, text=(0, 1, 2, 3)),
        _verdicts(results, of, analyses),
    ]
    for line in of.itertuples(index=False):
        key = (tc, outcome, line.analysis_id)
        label = analyses[line.analysis_id].description or f"analysis {line.analysis_id}"
        parts.append(
            f"<details><summary>{escape(label)}: who was left</summary>"
            + _attrition(results, key)
            + (_curves(results, key) if line.unblind or unblind else "")
            + "</details>"
        )
    return parts


def _people(line: Any, arm: str, *, blind: bool) -> str:
    """People of an arm, and how many had the outcome, which is not told of a blinded result."""
    people = _count(getattr(line, f"{arm}_subjects"))
    return people if blind else f"{people} ({_count(getattr(line, f'{arm}_outcomes'))})"


def _curves(results: GridResults, key: tuple[int, int, int]) -> str:
    svg = survival_curves(_of(results, "cm_kaplan_meier_dist", key))
    return _figure(svg, "Survival without the outcome, with 95 % limits.")


def _verdicts(results: GridResults, of: pd.DataFrame, analyses: dict[int, Any]) -> str:
    checks = of[KEY].merge(results.tables["cm_diagnostics_summary"], on=KEY)
    notes = of[KEY].merge(results.tables["note"], on=KEY).set_index("analysis_id")
    lines = []
    for line in checks.to_dict("records"):
        a = analyses[line["analysis_id"]]
        note = notes.loc[line["analysis_id"]]
        cells = []
        for verdict, (_, value) in CHECKS.items():
            said = "" if line[verdict] == "NOT EVALUATED" else f" ({line[verdict]})"
            shown = _number(line[value], 2)
            cells.append(f'<span class="{line[verdict]}">{shown or "–"}{said}</span>')
        lines.append(
            (
                a.description or f"analysis {a.id}",
                *cells,
                _number(note["proportional_p"], 3),
                _number(note["tied"], 2),
                _number(note["e_value"], 2) if line["unblind"] else "",
            )
        )
    head = (
        "Diagnostics",
        *(name for name, _ in CHECKS.values()),
        "Proportional hazards, p",
        "Tied scores",
        "E-value",
    )
    return _table(head, lines, text=(0,), raw=range(1, 1 + len(CHECKS)))


def _attrition(results: GridResults, key: tuple[int, int, int]) -> str:
    """The rules as a diagram from top to bottom."""
    of = _of(results, "cm_attrition", key)
    if of.empty:
        return ""
    comparison = results.tables["cm_target_comparator"]
    comparison = comparison[comparison["target_comparator_id"] == key[0]].iloc[0]
    arms = [
        of[of["exposure_id"] == comparison[c]].set_index("sequence_number")
        for c in ("target_id", "comparator_id")
    ]
    items = "".join(
        f"<li>{escape(line['description'])}: {_count(line['subjects'])} on the target, "
        f"{_count(arms[1].loc[number, 'subjects'])} on the comparator</li>"
        for number, line in arms[0].iterrows()
    )
    return f'<ol class="flow">{items}</ol>'


def _adjustment(results: GridResults, tc: int) -> list[str]:
    """Balance of each analysis that adjusts."""
    table = results.tables["cm_shared_covariate_balance"]
    table = table[table["target_comparator_id"] == tc]
    names = results.tables["cm_covariate"].drop_duplicates("covariate_id").set_index("covariate_id")
    parts = []
    for analysis in results.spec.analysis:
        of = table[table["analysis_id"] == analysis.id]
        if of.empty:
            continue
        label = analysis.description or f"analysis {analysis.id}"
        limit = results.spec.thresholds.balance or 0.1
        top = of.reindex(of["std_diff_after"].abs().sort_values(ascending=False).index).head(10)
        lines = [
            (
                str(names["covariate_name"].get(line["covariate_id"], line["covariate_id"])),
                *(
                    _share(line[f"{arm}_mean_{w}"])
                    for w in ("before", "after")
                    for arm in ("target", "comparator")
                ),
                _number(line["std_diff_before"], 2),
                _number(line["std_diff_after"], 2),
            )
            for line in top.to_dict("records")
        ]
        head = (
            "Most unequal after",
            "Target before",
            "Comparator before",
            "Target after",
            "Comparator after",
            "Difference before",
            "after",
        )
        parts.append(
            f"<h3>Balance: {escape(label)}</h3>"
            + _figure(balance_scatter(of, limit), "Standardised differences of all covariates.")
            + _table(head, lines, text=(0,))
        )
    return parts


def _controls(results: GridResults, tc: int, names: dict[int, str]) -> list[str]:
    """Negative controls and what they say of systematic error."""
    t = results.tables
    truth = t["cm_target_comparator_outcome"]
    known = truth[(truth["target_comparator_id"] == tc) & (truth["true_effect_size"] == 1)]
    if known.empty:
        return []
    found = t["cm_result"].merge(known[KEY[:2]], on=KEY[:2])
    parts = ["<h3>Negative controls</h3>"]
    for analysis in results.spec.analysis:
        of = found[(found["analysis_id"] == analysis.id) & found["se_log_rr"].gt(0)]
        label = analysis.description or f"analysis {analysis.id}"
        if len(of) < 3:
            parts.append(f"<p>{escape(label)}: {len(of)} controls have an estimate.</p>")
            continue
        error = fit_systematic_error(of["log_rr"], of["se_log_rr"])
        cover = leave_one_out(of["log_rr"], of["se_log_rr"])[["covers", "calibrated_covers"]].mean()
        said = (
            f"{label}: expected absolute systematic error {error.expected_absolute:.2f}. Of "
            f"{len(of)} controls {100 * cover.iloc[0]:.0f} % have intervals that hold no effect, "
            f"{100 * cover.iloc[1]:.0f} % when calibrated by the others. Dashed: where an estimate "
            "is significant; solid: where it is after calibration."
        )
        parts.append(_figure(calibration_plot(of, error.mean, error.sd), said))
    return parts


def _settings(results: GridResults) -> str:
    listed = "".join(
        f"<dt>{a.id}</dt><dd>{escape(a.description)}</dd>" for a in results.spec.analysis
    )
    text = escape(results.spec.to_json())
    return (
        f"<h2>Settings</h2><dl>{listed}</dl><details><summary>The whole specification</summary>"
        f'<div class="scroll"><pre>{text}</pre></div></details>'
    )


def _of(results: GridResults, table: str, key: Sequence[int]) -> pd.DataFrame:
    rows = results.tables[table]
    return rows[(rows[KEY] == list(key)).all(axis=1)]


def _table(
    head: Sequence[str],
    lines: Iterable[Sequence[str]],
    text: Sequence[int],
    raw: Iterable[int] = (),
) -> str:
    """A table that scrolls by itself where the page is narrow; ``raw`` columns are HTML."""
    raw = set(raw)

    def cell(i: int, value: str) -> str:
        kind = " class=text" if i in text else ""
        label = f' data-label="{escape(head[i], quote=True)}"'  # told where the table is stacked
        return f"<td{kind}{label}>{value if i in raw else escape(str(value))}</td>"

    rows = "".join(
        f"<tr>{''.join(cell(i, value) for i, value in enumerate(line))}</tr>" for line in lines
    )
    top = "".join(f"<th>{escape(h)}</th>" for h in head)
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>" if svg else ""


def _effect(rr: float, low: float, high: float) -> str:
    return f"{rr:.2f} ({low:.2f} to {high:.2f})" if np.isfinite(rr) else ""


def _number(x: Any, digits: int) -> str:
    return "" if x is None or not np.isfinite(float(x)) else f"{float(x):.{digits}f}"


def _count(n: float) -> str:
    return f"<{-int(n)}" if n < 0 else f"{int(n):,}"


def _share(mean: float) -> str:
    """A mean of the table: a small one is told as a limit."""
    return f"<{-mean:.3f}" if mean < 0 else f"{mean:.3f}"
