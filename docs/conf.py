"""Configuration of the documentation site, which ``make site`` builds."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import steropes

sys.path.insert(0, str(Path(__file__).parent))

project = "steropes"
author = "the steropes developers"
copyright = "2026, the steropes developers"
version = release = steropes.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["_templates"]
html_static_path = ["_static"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

autosummary_generate = True
default_role = "autolink"  # `name` in a docstring links to its page if it has one
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # the sections of the docstrings name the types
numpydoc_show_class_members = False  # the template of a class lists them

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "abort_on_example_error": True,
    "ignore_repr_types": r"matplotlib",
}

html_theme = "pydata_sphinx_theme"
html_title = "steropes"
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
}

# scikit-learn's own methods of metadata routing, whose text links to scikit-learn's pages.
INHERITED = re.compile(r"get_metadata_routing|set_\w+_request")


def skip_inherited(
    app: Any, what: str, name: str, item: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out the methods that scikit-learn documents."""
    return True if INHERITED.fullmatch(name) else None


def escape_bars(app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Escape the bars of absolute values, which reStructuredText reads as substitutions."""
    for k, line in enumerate(lines):
        if "|" in line and not line.lstrip().startswith((">>>", "...", "|")):
            parts = line.split("``")
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[k] = "``".join(parts)


def setup(app: Any) -> None:
    """Register the rules above, and write the pages and the plots that are generated."""
    import equivalents_page
    import specification_keys
    from benchmark_plots import write_plots

    app.connect("builder-inited", write_plots)
    app.connect("builder-inited", equivalents_page.write_page)
    app.connect("builder-inited", specification_keys.write_page)
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("autodoc-process-docstring", escape_bars)
