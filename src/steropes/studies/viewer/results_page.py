"""The page of results as one file that needs no server, no network and no other file."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from steropes.data.diagnostic_limits import IMBALANCE
from steropes.errors import DataError
from steropes.studies.disclosure import DisclosureRules, site_rules
from steropes.studies.report.template_rendering import render
from steropes.studies.result_files.atomic_files import write_files
from steropes.studies.viewer.characterization_views import characterization_views
from steropes.studies.viewer.cohort_views import cohort_views
from steropes.studies.viewer.comparative_views import comparative_views
from steropes.studies.viewer.database_views import PARTS, database_views, incidence_views
from steropes.studies.viewer.page_data import encoded, view_record
from steropes.studies.viewer.prediction_views import prediction_views
from steropes.studies.viewer.redacted_tables_with_names import named_tables
from steropes.studies.viewer.result_sources import ResultSource, read_sources
from steropes.studies.viewer.series_views import series_views
from steropes.studies.viewer.synthesis_views import synthesis_views
from steropes.studies.viewer.view_definition import View

__all__ = ["results_page", "results_views", "write_results_page"]

TEMPLATE = "results_page.html.jinja"
# Scripts of the page in their order: libraries, and those of the viewer.
SCRIPTS = (
    "vendor/tabulator.min.js", "vendor/d3.min.js", "vendor/plot.umd.min.js", "scripts/values.js",
    "scripts/charts.js", "scripts/tables.js", "scripts/page.js",
)  # fmt: skip
STYLES = ("vendor/tabulator_simple.min.css", "scripts/page.css")
SOURCE_MAP = re.compile(r"/\*# sourceMappingURL=[^*]*\*/|//# sourceMappingURL=.*")


@dataclass(frozen=True)
class PageScript:
    """A script of the page with the checksum by which the page's policy admits it."""

    text: str

    @property
    def digest(self) -> str:
        """The checksum in the form of a content security policy."""
        found = hashlib.sha256(self.text.encode()).digest()
        return f"'sha256-{base64.b64encode(found).decode()}'"


def write_results_page(
    paths: Sequence[str | Path],
    output: str | Path,
    *,
    unblind: bool = False,
    combine: bool = True,
    disclosure: str | DisclosureRules | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Write the page of released results and return its path.

    Parameters
    ----------
    paths : sequence of path
        Archives and folders of results; see `read_sources`.
    output : str or Path
        The HTML file.
    unblind : bool, default False
        Also show estimates that fail a diagnostic.
    combine : bool, default True
        Combine the results of several databases.
    disclosure : str or DisclosureRules, optional
        Disclosure rules whose smallest count the page applies; see `site_rules`.
    progress : callable, optional
        Called with the description of each step.

    Raises
    ------
    DataError
        There are no results, or the file cannot be written.
    """
    say = progress or (lambda _: None)
    rules = site_rules(disclosure)
    say("reading results")
    sources = read_sources(paths)
    views = results_views(sources, rules, unblind=unblind, combine=combine, progress=progress)
    say("writing the page")
    output = Path(output)
    text = results_page(views, rules, unblind=unblind)
    return write_files(output.parent, {output.name: text})[0]


def results_views(
    sources: Sequence[ResultSource],
    rules: DisclosureRules,
    *,
    unblind: bool = False,
    combine: bool = True,
    progress: Callable[[str], None] | None = None,
) -> list[View]:
    """Return all views of the results, without anything that may not be shown.

    Raises
    ------
    DataError
        There is nothing to show.
    """
    say = progress or (lambda _: None)
    say("disclosure control and blinding")
    tables = named_tables(sources, rules, unblind=unblind)
    views = [*comparative_views(tables), *series_views(tables)]
    if combine:
        say("combining databases")
    views += synthesis_views(tables, combine=combine, unblind=unblind)
    views += [*incidence_views(tables), *prediction_views(tables)]
    views += [*characterization_views(tables), *cohort_views(tables)]
    of_databases = database_views(tables, [source.rules for source in sources])
    if not views and all(view.name != PARTS for view in of_databases):
        raise DataError("the results have no table that can be shown")
    return views + of_databases


def results_page(views: Sequence[View], rules: DisclosureRules, *, unblind: bool = False) -> str:
    """Render the page of results as self-contained HTML.

    Parameters
    ----------
    rules : DisclosureRules
        Their smallest count is named on the page.
    unblind : bool, default False
        Whether estimates that fail a diagnostic are shown, for a sentence about that.
    """
    scripts = [PageScript(_without_map(_asset(name))) for name in SCRIPTS]
    records = [view_record(view) for view in views]
    databases = next((view for view in views if view.name == "databases"), None)
    labels = [] if databases is None else [str(d) for d in databases.table["database"].unique()]
    return render(
        TEMPLATE,
        title="Results of " + ", ".join(labels) if len(labels) < 4 else "Results",
        databases=labels,
        scripts=scripts,
        styles=[_without_map(_asset(name)) for name in STYLES],
        views=[_listed(record) for record in records],
        data={record["name"]: encoded(record) for record in records},
        unblind=unblind,
        least=rules.least,
        imbalance=IMBALANCE,
    )


def _listed(record: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a view in the navigation, with the columns by which others link to it."""
    entry = {k: record[k] for k in ("name", "title", "group", "rows")}
    ids = [name for name, _, kind, _ in record["columns"] if kind == "id" or name == "database"]
    return {**entry, "ids": ids}


def _asset(name: str) -> str:
    """Read a file of the viewer."""
    return files("steropes.studies.viewer").joinpath(name).read_text(encoding="utf-8")


def _without_map(text: str) -> str:
    """Remove the reference of a minified file to its source map, which browsers would fetch."""
    return SOURCE_MAP.sub("", text)
