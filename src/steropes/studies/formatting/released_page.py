"""The release of a design: its tables as CSV files, and one page of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

import pandas as pd

from steropes.designs.values.html_page import page
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.release_folder import write_release
from steropes.studies.formatting.text_safety import csv_text

__all__ = ["write_tables_and_page"]


def write_tables_and_page(
    folder: str | Path,
    title: str,
    tables: Mapping[str, pd.DataFrame],
    parts: Iterable[str],
    rules: DisclosureRules,
    protocol: Iterable[str] = (),
) -> list[Path]:
    """Write released tables and their page to the folder ``release``.

    Parameters
    ----------
    folder : str or Path
        Folder in which the folder ``release`` is made.
    title : str
        Title of the page.
    tables : mapping of str to DataFrame
        Released tables by the names of their files.
    parts : iterable of str
        Parts of the page in HTML, made of released tables alone. The rules are added.
    rules : DisclosureRules
        What has been applied to the tables.
    protocol : iterable of str, optional
        Sentences on the protocol by which the study was run.

    Returns
    -------
    list of Path
        Paths of the files.
    """
    texts = {f"{name}.csv": csv_text(table) for name, table in tables.items()}
    frozen = [escape(text) for text in protocol]
    last = [f"<h2>Frozen protocol</h2><p>{'<br>'.join(frozen)}</p>"] if frozen else []
    texts["report.html"] = page(title, [*parts, *last, f"<p>{rules.sentence()}</p>"])
    return write_release(folder, texts, rules)
