"""The page of all keys of specifications is complete, and its links and names exist."""

import re

import pytest

from docs import specification_keys as keys
from steropes.studies import case_series_grid_schema
from steropes.studies.settings.setting_fields import setting_fields
from steropes.studies.specifications.grid_specification_file import grid_schema

CLASSES = {cls.__name__: cls for root in keys.ROOTS for cls in keys.tables(root)}
PAGE = keys.page()
SECTIONS = dict(
    re.findall(r"^### (\w+)\n(.*?)(?=^\(keys-|^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
)
ROWS = {
    name: {
        line.split("`")[1]: [cell.strip() for cell in line.split("|")[2:-1]]
        for line in text.splitlines()
        if line.startswith("| `")
    }
    for name, text in SECTIONS.items()
}


@pytest.mark.parametrize("schema", [grid_schema, case_series_grid_schema])
def test_the_page_has_every_key_of_the_schema(schema):
    root = schema()
    tables = {root["title"]: root, **root["$defs"]}
    assert len(tables) > 5
    for name, table in tables.items():
        assert [*ROWS[name]] == [*table["properties"]]


@pytest.mark.parametrize("name", CLASSES)
def test_every_key_has_a_type_a_default_and_a_meaning(name):
    fields = setting_fields(CLASSES[name])
    rows = {key: row for key, row in ROWS[name].items() if key != "preset"}
    assert [*rows] == [*fields]
    for key, (kind, default, meaning, _) in rows.items():
        assert kind, key
        assert default or fields[key].default is None, key
        assert len(meaning) > 10, key


@pytest.mark.parametrize("name", keys.R_ARGUMENTS)
def test_arguments_of_r_belong_to_keys(name):
    assert {*keys.R_ARGUMENTS[name]} <= {*setting_fields(CLASSES[name])}
    assert all(ROWS[name][key][3] == f"`{r}`" for key, r in keys.R_ARGUMENTS[name].items())


def test_links_to_tables_have_a_target():
    linked = set(re.findall(r"\(#(keys-\w+)\)", PAGE))
    assert linked
    assert linked <= set(re.findall(r"^\((keys-\w+)\)=$", PAGE, re.MULTILINE))
