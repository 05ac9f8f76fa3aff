"""Study designs work with the dependencies of the package alone."""

import subprocess
import sys

OPTIONAL = ("duckdb", "jinja2", "pydantic", "rich", "typer", "matplotlib", "flwr")


def test_designs_are_imported_and_people_compared_without_the_extra_study():
    """Every module is imported, and people are matched, balanced and compared, in one process."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"
        "import importlib, pkgutil, steropes.designs as designs\n"
        "for module in pkgutil.walk_packages(designs.__path__, 'steropes.designs.'):\n"
        "    importlib.import_module(module.name)\n"
        "import numpy as np, pandas as pd\n"
        "from steropes.designs import *\nfrom steropes.designs.propensity import match_scores\n"
        "rng = np.random.default_rng(1)\n"
        "x = rng.integers(0, 2, (300, 4))\n"
        "treated = (rng.random(300) < 0.3 + 0.3 * x[:, 0]).astype(int)\n"
        "scores = fit_scores(x, treated, PropensityRules(variance=0.1))\n"
        "sets = match_scores(scores.score, treated, Match(caliper=0.5))\n"
        "assert covariate_balance(x, treated, sets >= 0).largest < 0.3\n"
        "people = pd.DataFrame({'treated': treated, 'time': rng.integers(1, 99, 300),\n"
        "                       'event': rng.integers(0, 2, 300)})[sets >= 0]\n"
        "assert estimate_effect(people, OutcomeModel(interval='wald')).se > 0\n"
        "assert not any(name.startswith('steropes.studies') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
