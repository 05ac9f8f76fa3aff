"""Study designs work with the dependencies of the package alone."""

import subprocess
import sys

OPTIONAL = ("duckdb", "jinja2", "pydantic", "rich", "typer", "matplotlib", "polars", "flwr")


def test_every_module_of_designs_is_imported_without_the_extra_study():
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"
        "import importlib, pkgutil, steropes.designs as designs\n"
        "for module in pkgutil.walk_packages(designs.__path__, 'steropes.designs.'):\n"
        "    importlib.import_module(module.name)\n"
        "assert not any(name.startswith('steropes.studies') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
