"""Hierarchies of outcomes, in which a node may have several parents."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from steropes.data.input_types import TableLike
from steropes.data.vector_checks import sort_labels
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError, listed

__all__ = ["Hierarchy", "chosen_cuts", "read_hierarchy"]

# Columns of a table of children and parents, and of OMOP's table of ancestors.
CHILDREN = ("node", "parent")
ANCESTORS = ("descendant_concept_id", "ancestor_concept_id")


@dataclass(frozen=True)
class Hierarchy:
    """Nodes with all of their descendants.

    Attributes
    ----------
    nodes : Index
        Names or ids of the nodes.
    below : sparse matrix of bool, shape (nodes, nodes)
        Whether the node of a column is the node of a row or a descendant of it.
    """

    nodes: pd.Index
    below: sparse.csr_array

    def positions(self, name: str, nodes: pd.Series) -> NDArray:
        """Return the positions of nodes, and refuse those that the hierarchy lacks."""
        found = self.nodes.get_indexer(pd.Index(nodes))
        if (found < 0).any():
            unknown = list(dict.fromkeys(nodes[found < 0]))
            raise DataError(
                f"{name}: the tree lacks {len(unknown)} of the nodes, such as "
                f"{listed(unknown, 3)}; add rows with their parents."
            )
        return cast(NDArray, found)


def read_hierarchy(tree: TableLike) -> Hierarchy:
    """Read a hierarchy from a table.

    Parameters
    ----------
    tree : DataFrame
        Columns ``node`` and ``parent``, with a row for each parent of a node and a missing parent
        for roots; or ``descendant_concept_id`` and ``ancestor_concept_id``, as OMOP's
        ``concept_ancestor``.

    Raises
    ------
    DataError
        Columns or nodes are missing, or a node is its own ancestor.
    """
    tree = read_columns(tree, None, "tree")
    if set(ANCESTORS) <= set(tree.columns):
        below, above = (tree[name] for name in ANCESTORS)
    elif set(CHILDREN) <= set(tree.columns):
        below, above = (tree[name] for name in CHILDREN)
    else:
        raise DataError(
            f"tree needs the columns {listed(CHILDREN)}, or {listed(ANCESTORS)} of OMOP; it has "
            f"{listed(list(map(str, tree.columns))) or 'none'}."
        )
    if below.isna().any():
        row = int(np.argmax(below.isna()))
        raise DataError(f"tree: row {row} (counted from 0) has no {below.name}; leave it out.")
    if not len(tree):
        raise DataError("tree has no rows.")
    linked = above.notna().to_numpy()
    below, above = _alike(below), _alike(above[linked])
    # Sorted, so that random numbers do not depend on the order of rows.
    nodes = pd.Index(pd.unique(pd.concat([below, above], ignore_index=True)))
    nodes = nodes[sort_labels(np.arange(len(nodes)), list(nodes))[0].argsort()]
    rows, columns = nodes.get_indexer(pd.Index(above)), nodes.get_indexer(pd.Index(below[linked]))
    own = np.arange(len(nodes))
    rows, columns = np.append(rows, own), np.append(columns, own)
    step = sparse.csr_array(
        (np.ones(len(rows), dtype=np.int32), (rows, columns)), shape=(len(nodes),) * 2
    )
    reach = _closed(step)
    both = sparse.coo_array(sparse.triu(reach.multiply(reach.T), k=1))
    if both.nnz:
        raise DataError(
            f"tree: {nodes[both.row[0]]!r} and {nodes[both.col[0]]!r} are ancestors of each other; "
            "remove a link of the circle."
        )
    return Hierarchy(nodes, reach)


def _alike(nodes: pd.Series) -> pd.Series:
    """Return nodes without categories, and as whole numbers if they are floats only for a gap."""
    plain = pd.Series(np.asarray(nodes), index=nodes.index)
    if plain.dtype.kind == "f" and (plain == np.round(plain)).all():
        return plain.astype(np.int64)
    return plain


def _closed(step: sparse.csr_array) -> sparse.csr_array:
    """Return the links over any number of steps: squares until nothing is added."""
    reach = sparse.csr_array(step > 0)
    while True:
        counts = reach.astype(np.int32)
        further = sparse.csr_array((counts @ counts) > 0)
        if further.nnz == reach.nnz:
            further.sort_indices()
            return further
        reach = further


def cut_links(hierarchy: Hierarchy, chosen: NDArray) -> pd.DataFrame:
    """Return the next larger cuts of each cut, as a table of ``node`` and ``parent``.

    Parameters
    ----------
    hierarchy : Hierarchy
        All nodes.
    chosen : ndarray of int
        The positions of the nodes whose cuts are tested.
    """
    inside = sparse.csr_array(hierarchy.below[chosen][:, chosen]).astype(np.int32)
    inside = inside - sparse.eye_array(len(chosen), dtype=np.int32, format="csr")
    between = sparse.csr_array((inside @ inside) > 0).astype(np.int32)
    direct = sparse.coo_array((inside - inside.multiply(between)) > 0)
    nodes = hierarchy.nodes[chosen]
    return pd.DataFrame({"node": nodes[direct.col], "parent": nodes[direct.row]})


def chosen_cuts(hierarchy: Hierarchy, cuts: Sequence[Hashable] | None) -> NDArray:
    """Return the positions of the nodes whose cuts are tested."""
    if cuts is None:
        return np.arange(len(hierarchy.nodes))
    if isinstance(cuts, str) or not len(cuts):
        raise DataError(f"cuts must be a list of nodes, not {cuts!r}.")
    found = hierarchy.positions("cuts", pd.Series(list(cuts), dtype=object))
    return np.unique(found)
