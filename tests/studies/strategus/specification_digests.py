"""Digests of public specifications: their settings without any text, for tests.

``python -m tests.studies.strategus.specification_digests FOLDER FILE.json ...`` writes a digest of
each file to a folder. Names, descriptions and functions of R are replaced by numbers, and long
lists of ids and of similar parts are cut, so that a digest has what decides how a specification is
read and run, and nothing that an author wrote.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

from steropes.studies.strategus_plans.specification_text import specification_values

FOLDER = Path(__file__).parent / "digests"
MOST_IDS = 40  # Of a longer list of numbers so many are kept.
MOST_PARTS = {"validationList": 6, "modelDesignList": 6}  # Lists of parts that differ little.
# Fields with the words of an author; other long texts are replaced too.
WORDS = re.compile(r"(name|description|title|code|caption|author|by|comment|label|text)$", re.I)
LONGEST = 40  # No setting of R has more characters.
FUNCTIONS = {"modelName", "attr_fun"}  # Names of R's functions and learners.
LEARNER = "Lasso Logistic Regression"
NUMBERS = re.compile(r"[\d\s.,-]*")


def digest(value: Any, key: str = "", numbers: dict[str, int] | None = None) -> Any:
    """Return a value of a specification without texts that choose no setting."""
    numbers = {} if numbers is None else numbers
    if isinstance(value, dict):
        if "serialized_code" in value:
            return {**value, "serialized_code": ["58"]}
        return {k: digest(v, k, numbers) for k, v in value.items()}
    if isinstance(value, list):
        if not any(isinstance(v, dict | list) for v in value):
            value = value[:MOST_IDS]  # Columns of a table keep equal lengths.
        return [digest(v, key, numbers) for v in value[: MOST_PARTS.get(key, len(value))]]
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("{"):
        try:
            return json.dumps(digest(json.loads(value), "", numbers))
        except ValueError:
            pass  # An author's text.
    if key in FUNCTIONS or value == LEARNER or NUMBERS.fullmatch(value):
        return value
    if not WORDS.search(key) and len(value) <= LONGEST:
        return value
    return f"text {numbers.setdefault(value, len(numbers) + 1)}"


def write_digest(folder: Path, file: Path) -> Path:
    """Write the digest of a specification, compressed."""
    values = specification_values(file)
    text = json.dumps(digest(values), separators=(",", ":"))
    path = folder / f"{file.stem}.json.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
    return path


if __name__ == "__main__":
    for name in sys.argv[2:]:
        made = write_digest(Path(sys.argv[1]), Path(name))
        print(made, made.stat().st_size)
