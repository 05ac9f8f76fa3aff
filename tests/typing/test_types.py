"""Types as a user meets them: mypy on small programs that import the installed package."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import steropes
import steropes.studies

mypy = pytest.importorskip("mypy.api")

HERE = Path(__file__).parent
ERRORS = [  # imported at once
    "DataError",
    "MonotoneLikelihoodWarning",
    "SeparationError",
]

# Packages whose types no user meets; PyTorch alone has more modules than all others together.
UNSEEN = (
    *("torch", "triton", "numba", "dask", "distributed", "hypothesis"),
    *("pydantic", "cryptography", "markdown_it", "narwhals"),
)


@pytest.fixture(scope="module")
def said(request, tmp_path_factory):
    """What mypy at its strictest says, without the settings of this repository.

    It keeps what it knows of NumPy between runs: the first takes ten seconds, the next one two.
    """
    folder = tmp_path_factory.mktemp("mypy")
    (folder / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\n[mypy-{','.join(f'{name}.*' for name in UNSEEN)}]\n"
        "follow_imports = skip\n"
    )
    settings = [
        "--config-file",
        str(folder / "mypy.ini"),
        "--cache-dir",
        str(request.config.cache.mkdir("mypy")),
    ]
    programs = [str(HERE / name) for name in ("right.py", "wrong.py")]
    out, complaint, _ = mypy.run([*settings, "--no-error-summary", *programs])
    assert not complaint
    return out


def test_what_a_user_writes_passes_the_strictest_check(said):
    about = [line for line in said.splitlines() if "wrong.py" not in line]
    assert not about, "\n".join(about)


def test_every_mistake_is_an_error_and_nothing_else_is(said):
    lines = (HERE / "wrong.py").read_text().splitlines()
    marks = [(i, re.search(r"# error: ([a-z-]+)", line)) for i, line in enumerate(lines, 1)]
    expected = [(i, mark[1]) for i, mark in marks if mark]
    found = re.findall(r"wrong\.py:(\d+): error: .*\[([a-z-]+)\]$", said, re.M)
    assert sorted((int(i), code) for i, code in found) == expected, said


@pytest.mark.parametrize("package", [steropes, steropes.studies])
def test_editors_see_the_names_that_there_are_at_run_time(package):
    tree = ast.parse(Path(package.__file__).read_text())
    block = next(x for x in tree.body if isinstance(x, ast.If))  # if TYPE_CHECKING
    imports = [x for x in block.body if isinstance(x, ast.ImportFrom)]
    seen = {name.name: "." * x.level + (x.module or "") for x in imports for name in x.names}
    for name, home in seen.items():
        assert getattr(package, name) is getattr(import_module(home, package.__name__), name)
    listed = {*seen, *ERRORS} if package is steropes else set(seen)
    # `import *` works without the extra packages of studies.
    listed -= {name for name in seen if package is steropes and seen[name] == ".studies"}
    assert sorted(package.__all__) == sorted(listed)
