"""Terminal output of comparative grids and of combined databases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from steropes.studies.database.data_quality_notes import table_sentences
from steropes.studies.diagnostics.diagnostic_catalogue import declared_diagnostics
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
from steropes.studies.formatting.released_numbers import decimals, title_case
from steropes.studies.grids.control_performance import (
    analysis_performance,
    released_estimates_words,
)
from steropes.studies.report.grid_page_data import KEY
from steropes.studies.report.terminal_tables import (
    analysis_names,
    print_grid_files,
    table_of,
    wide_console,
)
from steropes.studies.report.unusable_covariate_records import unusable_words

if TYPE_CHECKING:
    import pandas as pd

    from steropes.studies.grids.comparative_grid_run import GridResults

__all__ = ["print_combined", "print_grid"]


def print_grid(results: GridResults, pages: Iterable[Path], unblind: bool) -> None:
    """Print the estimates of interest, notes on the data, performance and the paths of files."""
    from rich.markup import escape

    console = wide_console()
    console.print(escape(repr(results)))
    t = results.tables
    heads: tuple[str, ...] = ("Comparison", "Outcome", "Analysis", "Ratio", "95% interval")
    console.print(table_of("Estimates", heads, _estimates(results, unblind), texts=3))
    if words := _failures(results):
        console.print(escape(words), soft_wrap=True)
    for words in [*unusable_words(t), *(said for said, _ in table_sentences(t["data_note"]))]:
        console.print(escape(words), soft_wrap=True)
    if len(t["positive_control"]):
        heads = ("Analysis", "Coverage", "Calibrated", "Precision", "Squared error", "Type 1",
                 "Type 2", "AUC")  # fmt: skip
        console.print(table_of("Performance on controls", heads, _performance(results)))
        if words := released_estimates_words(results):
            console.print(words, soft_wrap=True)
    print_grid_files(console, results, pages)


def _estimates(results: GridResults, unblind: bool) -> Iterable[Sequence[object]]:
    """Yield a row for each estimate of interest."""
    t = results.tables
    cohorts = t["cohort"][["cohort_id", "name"]].itertuples(index=False)
    names = {number: title_case(str(name)) for number, name in cohorts}
    pairs = {
        c.target_comparator_id: f"{names[c.target_id]} against {names[c.comparator_id]}"
        for c in t["cm_target_comparator"].itertuples(index=False)
    }
    analyses = analysis_names(t["cm_analysis"])
    for line in results.estimates(unblind).itertuples(index=False):
        if line.rr == line.rr:
            unconverged = isinstance(line.unconverged, str)
            mark = f" ({line.unconverged} did not converge)" if unconverged else ""
            effect = f"{line.rr:.2f}{mark}", f"{line.ci_95_lb:.2f} to {line.ci_95_ub:.2f}"
        else:
            effect = line.note or ("none" if line.unblind else NOT_SHOWN), "–"
        outcome = names.get(line.outcome_id, f"outcome {line.outcome_id}")
        yield pairs[line.target_comparator_id], outcome, analyses[line.analysis_id], *effect


def _failures(results: GridResults) -> str:
    """Return the diagnostics that hide estimates of interest, with the number of each; or ""."""
    t, of_interest = results.tables, results.estimates(unblind=True)[KEY]
    own = t["note"].columns.difference(t["cm_diagnostics_summary"].columns)
    checks = t["cm_diagnostics_summary"].merge(of_interest, on=KEY)
    checks = checks.merge(t["note"][[*KEY, *own]], on=KEY)
    further = t["further_diagnostic"].merge(of_interest, on=KEY)
    found = []
    thresholds = results.spec.thresholds
    for declared in declared_diagnostics(thresholds, "comparative"):
        d = declared.chosen(thresholds)
        if d.guards == "nothing":
            continue
        if d.measure is not None:
            verdicts = further.loc[further["diagnostic"] == d.key, "verdict"]
        else:
            verdicts = checks[d.verdict_column]
        if failed := int((verdicts == "FAIL").sum()):
            found.append(f"{d.name} ({failed} of {len(checks)})")
    return f"Estimates that fail a diagnostic: {'; '.join(found)}." if found else ""


def _performance(results: GridResults) -> Iterable[Sequence[object]]:
    """Yield a row for each analysis with its performance on the controls."""
    names = results.tables["cm_analysis"].set_index("analysis_id")["description"]
    table = analysis_performance(results)
    every = table[table["ratio"].isna()]
    calibrated = every[every["calibrated"]].set_index(["target_comparator_id", "analysis_id"])
    for line in every[~every["calibrated"]].itertuples(index=False):
        after = calibrated.loc[(line.target_comparator_id, line.analysis_id), "coverage"]
        shares = (line.coverage, after, line.type_1, line.type_2)
        covered, calibrated_cover, type_1, type_2 = (f"{100 * x:.0f}%" for x in shares)
        yield (
            names[line.analysis_id],
            covered,
            calibrated_cover,
            f"{line.precision:.1f}",
            f"{line.mse:.3f}",
            type_1,
            type_2,
            f"{line.auc:.2f}",
        )


def print_combined(found: pd.DataFrame) -> None:
    """Print the combined estimates of several databases, a table for each question."""
    from rich.markup import escape

    console = wide_console()
    if found.empty:
        console.print("no result passes the diagnostics for evidence synthesis in any database")
        return
    keys = ["target_comparator_id", "outcome_id", "analysis_id", "target", "comparator", "outcome",
            "analysis"]  # fmt: skip
    heads = ("Method", "Databases", "Ratio", "95% interval", "Note")
    for _, lines in found.groupby(keys, sort=False, dropna=False):
        first = lines.iloc[0]
        pair = f"{first.target} against {first.comparator}" if first.target else "comparison"
        title = (
            f"{pair}, {first.outcome}, {first.analysis} (comparison {first.target_comparator_id}, "
            f"outcome {first.outcome_id}, analysis {first.analysis_id})"
        )
        rows = [_combined(line) for line in lines.itertuples(index=False)]
        console.print(f"[bold]{escape(title)}[/]", soft_wrap=True)
        console.print(table_of(None, heads, rows))
    rules = f"Disclosure control: {found['disclosure'].iloc[0]}"
    console.print(escape(rules), soft_wrap=True)


def _combined(line: pd.Series) -> Sequence[object]:
    """Return the row of a combined estimate."""
    ratio = decimals(line.rr, 3) if line.rr == line.rr else "no finite estimate"
    interval = f"{decimals(line.ci_95_lb, 3)} to {decimals(line.ci_95_ub, 3)}"
    effect = (ratio, interval) if line.ci_95_lb == line.ci_95_lb else ("–", "–")
    return line.method, line.databases, *effect, line.note or ""
