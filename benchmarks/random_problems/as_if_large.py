"""Small problems that go the ways of large ones: the library's thresholds of size, made tiny.

What starts at hundreds of columns or millions of entries (a Hessian in single precision or of a
part of the rows, tiles, stripes, panels, a way of penalties, several groups of replicates, models
by columns) is never met by problems that a dense reference can follow. Which groups of these ways
a problem goes is drawn by its seed, so that they meet one another.

Constants that compiled kernels read are none of these: a kernel is compiled once, and kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

__all__ = ["as_if_large", "drawn"]

# Share of the problems, and module, names and values of what changes in those; in modules of
# policies the names are fields of the default one, and "POLICY.field" is that of a module.
GROUPS: tuple[tuple[float, dict[str, dict[str, Any]]], ...] = (
    (0.8, {"solve.solver_constants": {
        "hessian.max_double_columns": 0, "hessian.single_rows_per_column": 1,
    }}),
    (0.5, {
        "solve.solver_constants": {
            "hessian.min_pairs": 0.0, "hessian.rows_per_column": 1,
            "data.effective_rows_per_column": 1,
        },
    }),
    # Hessians by columns, of ridges alone; at the end of all models.
    (0.15, {"solve.solver_constants": {
        "hessian.min_wide_columns": 6, "hessian.entries_ridge": 0.1,
    }}),
    (0.7, {"solve.solver_constants": {
        "working_set.min_violators": 1, "working_set.min_batch": 3, "working_set.batch_share": 0.5,
    }}),
    (0.5, {
        "solve.solver_constants": {
            "hessian.dear_columns": 4, "hessian.patient_columns": 4,
        },
        "select.variance_path_constants": {"check_columns": 4, "screening_many_columns": 4},
    }),
    (0.5, {"select.variance_path_constants": {"max_lanes": 2}}),
    (0.5, {"select.variance_path_constants": {"small": 0}}),
    (0.7, {"select.variance_path_constants": {"large": 0, "many_nonzero": 0}}),
    (0.7, {"solve.solver_constants": {"data.min_cached_entries": 0}}),
    (0.5, {"solve.solver_constants": {
        "data.single_precision_tol": 1e-9, "data.single_precision_lanes": 1,
    }}),
    (0.8, {
        "solve.subproblem.coordinate_sweeps": {"SIZES.panel_coordinates": 7},
        "solve.solver_constants": {
            "subproblem.max_sweeps": -1, "subproblem.max_sweeps_alone": -1,
        },
    }),
    (0.5, {"solve.solver_constants": {"subproblem.dear_support": 2}}),
    (0.5, {
        "solve.solver_constants": {
            "subproblem.max_support_share": 2.0, "subproblem.max_part_share": 1.0,
        },
    }),
    (0.8, {"solve.subproblem.preconditioners.tiled_cholesky": {
        "SIZES.tile_columns": 5, "SIZES.tile_stripes": 3, "SIZES.tile_task_vectors": 2,
    }}),
    (0.5, {"solve.solver_constants": {"subproblem.preconditioner.max_factor_columns": 12}}),
    (0.8, {
        "solve.solver_constants": {
            "subproblem.preconditioner.kept_corrections": 2,
            "subproblem.preconditioner.kept_unit_share": 0.0,
        },
        "solve.subproblem.preconditioners.inactive_column_corrections": {
            "SIZES.inverse_columns": 3
        },
    }),
    (0.5, {"solve.solver_constants": {
        "subproblem.preconditioner.min_lacking": 2, "subproblem.preconditioner.spare_share": 0.3,
    }}),
    (0.5, {"solve.solver_constants": {"subproblem.max_eliminated": 1}}),
    (0.8, {
        "solve.subproblem.dense_products": {
            "SIZES.dense_task_rows": 5, "SIZES.dense_partial_sums": 3, "SIZES.dense_cached_rows": 3,
        },
        "solve.quasi_newton.shared_hessian": {"SIZES.dense_task_rows": 5},
        "design_matrix.working_columns_by_row": {
            "STORAGE.mirrored_rows": 5, "STORAGE.squared_rows": 11,
        },
    }),
    (0.8, {"backends.cpu.sparse.cpu_chunk_sizes": {
        "frequent_share": 0.1, "min_frequent_columns": 2, "min_pairs_per_entry": 0,
        "tile_columns": 5, "tile_rows": 8, "max_tile_bytes": 1 << 12,
    }}),
    (0.8, {
        "backends.cpu.sparse.cpu_chunk_sizes": {
            "max_partial_bytes": 1 << 8, "chunk_rows": 13, "min_band_rows": 7, "max_band_rows": 16,
            "gram_stripe_bytes": 64, "gram_entries": 1, "max_dense_gram_values": 0,
            "max_group_lines": 16, "max_group_entries": 64,
        },
        "likelihoods.cumulative.cumulative_loss": {"CHUNK_SIZES.rows": 11},
    }),
    (0.8, {
        "solve.hessian.profiled_hessian": {
            "SIZES.cross_entries": 64, "SIZES.cached_gram_columns": 4, "SIZES.gram_entries": 64,
            "SIZES.min_pooled_columns": 2, "SIZES.min_pooled_parameters": 10,
            "SIZES.parameter_groups": 7,
        },
        "solve.hessian.grouped_hessian": {"SIZES.group_sums": 100},
        "solve.hessian.multi_predictor_hessian": {"SIZES.people_at_once": 7},
        "solve.optimality.optimality_certificate": {
            "SIZES.curvature_columns": 3, "SIZES.curvature_entries": 64
        },
        "likelihoods.pooled_logistic_likelihood": {"CHUNK_SIZES.people": 11},
        "likelihoods.nuisance_hessian": {"CHUNK_SIZES.right_hand_sides": 3},
    }),
    (0.5, {"fit.fits_of_many_outcomes": {"OUTCOMES.min_near_columns": 1}}),
    (0.5, {"design_matrix.private_array_copies": {
        "STORAGE.min_packed_entries": 1, "STORAGE.max_band_share": 10.0,
        "STORAGE.packed_at_once": 7,
    }}),
    (0.5, {"backends.thread_pool": {"FEW": 0, "MANY": 0, "SHORT": 0.0, "WORTH": 0.0}}),
    (0.3, {
        "solve.solver_constants": {"hessian.min_wide_columns": 6, "hessian.max_matrix_columns": 6},
        "solve.data_term.preconditioner_correlations": {
            "SIZES.correlation_chunks": 3, "SIZES.correlation_task_columns": 3
        },
        "solve.data_term.column_hessian": {"SIZES.column_partial_sums": 3},
    }),
)  # fmt: skip


def drawn(seed: int) -> dict[tuple[str, str], Any]:
    """The thresholds of a seed's problem: value by module and name."""
    rng = np.random.default_rng([seed, 11])
    out: dict[tuple[str, str], Any] = {}
    for share, modules in GROUPS:
        if rng.random() < share:
            for module, values in modules.items():
                out |= {(f"steropes.{module}", name): value for name, value in values.items()}
    return out


def _changed(policy: Any, field: str, value: Any) -> Any:
    """A policy with another value of a field, or of a field of one of its parts."""
    part, _, rest = field.partition(".")
    if rest:
        value = _changed(getattr(policy, part), rest, value)
    return replace(policy, **{part: value})


@contextmanager
def as_if_large(seed: int) -> Iterator[None]:
    """Within this the thresholds are those of a seed's problem."""
    before = []
    try:
        for (name, constant), value in drawn(seed).items():
            module = import_module(name)
            if name.endswith(("_policy", "_constants", "cpu_chunk_sizes")):
                constant, value = "DEFAULT", _changed(module.DEFAULT, constant, value)
            elif "." in constant:  # a field of a policy that the module imports
                constant, _, field = constant.partition(".")
                value = _changed(getattr(module, constant), field, value)
            before.append((module, constant, getattr(module, constant)))  # it has to be there
            setattr(module, constant, value)
        yield
    finally:
        for module, constant, value in reversed(before):
            setattr(module, constant, value)
