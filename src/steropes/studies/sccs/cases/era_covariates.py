"""Covariates of a case series as columns, with the eras or drug classes that define each."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from steropes.designs.case_series.series_column_descriptions import CONTROL, Column
from steropes.errors import DataError
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.sccs.cases.era_sources import EraSources
from steropes.studies.sccs.cases.eras import Eras
from steropes.studies.sccs.specification.case_series_settings import (
    CaseSeriesSettings,
    ExposureWindow,
)

__all__ = ["era_columns"]


def drug_classes(db: OmopDatabase, drugs: list[int], length: int) -> dict[int, str]:
    """Look up the ATC class of each drug that has one; of several, the first by code.

    Parameters
    ----------
    db : OmopDatabase
        With ``concept_code`` and ``vocabulary_id`` in ``concept``, and ``concept_ancestor``.
    drugs : list of int
        Concept ids of ingredients.
    length : {1, 3, 4, 5}
        Length of the codes: anatomical, therapeutic, pharmacological or chemical group.

    Raises
    ------
    DataError
        The vocabulary has no ATC classes above any of the drugs.
    """
    gone = [c for c in ("concept_code", "vocabulary_id") if c not in db.columns("concept")]
    if gone or "concept_ancestor" not in db.tables:
        lacks = f"concept lacks the column {gone[0]}" if gone else "there is no concept_ancestor"
        raise DataError(f"a prior over drug classes needs ATC codes, but {lacks} in {db.name}")
    links = db.links("descendant_concept_id", lambda: drugs)
    concept = db.concepts(lambda: db.recorded_concepts(links, "ancestor_concept_id"))
    found = db.rows(
        "SELECT a.descendant_concept_id::BIGINT, min(c.concept_code) "
        f"FROM {links} a JOIN {concept} c "
        "ON c.concept_id = a.ancestor_concept_id "
        "WHERE c.vocabulary_id = 'ATC' AND length(c.concept_code) = $1 "
        "AND a.descendant_concept_id IN (SELECT unnest($2::BIGINT[])) GROUP BY 1",
        [int(length), [int(d) for d in drugs]],
    )
    if not found:
        raise DataError(
            f"a prior over drug classes needs ATC codes: none of the {len(drugs)} drugs has an ATC "
            f"class of {length} characters in the vocabulary of {db.name}"
        )
    return {int(drug): str(code) for drug, code in found}


def era_columns(
    eras: Eras, settings: CaseSeriesSettings
) -> tuple[list[Column], list[ExposureWindow]]:
    """Assign the cases' eras to columns.

    Creates the temporary table ``wanted`` (``col, kind, era_id``) and returns the columns with the
    window of each. The control interval, if there is one, is the last.
    """
    windows = [*settings.windows, *([settings.control] if settings.control else [])]
    columns: list[Column] = []
    of: list[ExposureWindow] = []
    pairs: list[tuple[int, str, int]] = []
    for k, window in enumerate(windows):
        number = CONTROL if settings.control is not None and k == len(windows) - 1 else k
        for column, ids in _columns_of(eras, window, number):
            pairs += [(len(columns), window.kind, i) for i in ids]
            columns.append(column)
            of.append(window)
    if settings.prior == "hierarchical":
        columns = _with_classes(eras.sources, settings, columns)
    work = eras.work
    work.run("CREATE OR REPLACE TEMP TABLE wanted (col BIGINT, kind VARCHAR, era_id BIGINT)")
    if pairs:
        cols, kinds, ids_ = zip(*pairs, strict=True)
        work.run(
            "INSERT INTO wanted SELECT unnest($1::BIGINT[]), unnest($2::VARCHAR[]), "
            "unnest($3::BIGINT[])",
            [list(cols), list(kinds), list(ids_)],
        )
    return columns, of


def _with_classes(
    sources: EraSources, settings: CaseSeriesSettings, columns: list[Column]
) -> list[Column]:
    """Add the ATC classes of single drugs under the prior to the columns."""
    drugs = [c.eras[0] for c in columns if c.penalized and len(c.eras) == 1]
    if sources.rules.exposures_from == "cohort" or not drugs:
        raise DataError(
            "a hierarchical prior is over drug classes: it needs exposures from drug_era, each "
            "with its own column (by_concept) and penalized"
        )
    classes = drug_classes(sources.db, drugs, settings.class_length)
    return [
        replace(c, group=classes.get(c.eras[0])) if c.penalized and len(c.eras) == 1 else c
        for c in columns
    ]


def _columns_of(eras: Eras, window: ExposureWindow, number: int) -> list[tuple[Column, list[int]]]:
    """Return the columns of a window with the ids of each."""
    sources = eras.sources
    table, found = sources.table_of(window), eras.ids(window.kind)
    asked = found if window.eras is None else sources.members(table, window.eras)
    gone = {*sources.members(table, window.exclude)} if window.exclude else set()
    if window.eras is None:
        gone |= sources.outcome_and_nesting(table)
    present = {*found}
    ids = [i for i in asked if i not in gone]
    flags: dict[str, Any] = {
        name: bool(getattr(window, name))
        for name in ("penalized", "of_interest", "profile", "pre_exposure")
    }
    if not window.by_concept:
        column = Column(window.label, number, window.eras or (), **flags)
        return [(column, [i for i in ids if i in present])]
    kept = [i for i in ids if i in present]
    names = sources.names(table, kept)
    twice = {n for n, times in Counter(names.values()).items() if times > 1}
    return [
        (
            Column(
                f"{window.label}: {names[i]}" + (f" {i}" if names[i] in twice else ""),
                number,
                (i,),
                **flags,
            ),
            [i],
        )
        for i in kept
    ]
