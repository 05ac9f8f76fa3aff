"""Likelihoods declare what their curvature is and never see X; no room asks what a class is."""

import ast
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import steropes
from drawn_families import FAMILIES, drawn
from steropes.backends import get_backend
from steropes.likelihoods import CoxLikelihood, Curvature, FineGrayLikelihood
from steropes.likelihoods.hessian_structures import ChannelCurvature
from steropes.likelihoods.matched_cox_likelihood import MatchedCoxLikelihood
from steropes.likelihoods.piecewise_cox_likelihood import PiecewiseCoxLikelihood
from steropes.solve.hessian import diagonal, hessian
from steropes.solve.linear_predictor import bound_weights, linear_predictor

SOURCE = Path(steropes.__file__).parent
ROOMS = ["backends", "data", "design", "likelihoods", "priors", "solve", "fit", "select", "infer"]
OF_X = {"by_rows", "columns", "diagonals", "gram", "layout", "matmul", "rmatmul", "taken"}


def modules(room):
    for path in sorted((SOURCE / room).rglob("*.py")):
        yield path.relative_to(SOURCE), ast.parse(path.read_text())


def asks_for_a_class(node):
    """hasattr(x, …) of anything but a module, type(x) is C, type(x) in (…), x.name == "…"."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        module = isinstance(node.args[0], ast.Name) and node.args[0].id == "os" if node.args else 0
        return node.func.id == "hasattr" and not module
    if not isinstance(node, ast.Compare):
        return False
    left = node.left
    if isinstance(left, ast.Attribute) and left.attr == "name":
        return "backend" in ast.unparse(left.value)
    of_type = isinstance(left, ast.Call) and ast.unparse(left.func) == "type"
    return of_type and "np.ndarray" not in ast.unparse(node)  # a subclass may be masked


@pytest.mark.sampled
@pytest.mark.parametrize("room", ROOMS)
def test_capabilities_are_declared_and_not_sniffed(room):
    for path, tree in modules(room):
        found = [ast.unparse(node) for node in ast.walk(tree) if asks_for_a_class(node)]
        assert not found, path


def test_no_likelihood_asks_for_what_only_columns_or_rows_of_x_have():
    for path, tree in modules("likelihoods"):
        asked = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not asked & OF_X, path


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_declares_its_kind_as_data(family, exact, rng):
    """Arrays with a row for each of η, of the groups or of the intervals: none of X's columns."""
    model, settings, X, y, more, _ = drawn(family, rng)
    m = model(**settings, prior=steropes.Normal(1.0)).fit(X, y, **more)
    problem = m._problem
    eta = linear_predictor(problem, m._beta * problem.design.scale)
    curvature = problem.likelihood.curvature(eta, bound_weights(problem), exact=exact)
    assert type(curvature) in get_args(Curvature)
    assert is_dataclass(curvature)
    assert isinstance(curvature.grouped, bool)
    assert np.shape(curvature.v) == (problem.likelihood.n_eta,)
    held = [getattr(curvature, field.name) for field in fields(curvature)]
    assert all(x is None or isinstance(x, np.ndarray | bool) or callable(x) for x in held)


def test_a_kind_over_rows_of_another_layout_is_refused():
    rows = steropes.as_design(np.eye(3)).by_rows(np.arange(3), None, get_backend("cpu", 1))
    z = np.zeros(3)
    curvature = ChannelCurvature(z[None], z, z, np.zeros((3, 0)), z, z, z[None], z, z)
    with pytest.raises(NotImplementedError, match="ChannelCurvature over rows laid out as 'rows'"):
        hessian(rows, curvature)
    with pytest.raises(NotImplementedError, match="ChannelCurvature over rows laid out as 'rows'"):
        diagonal(rows, curvature)


def test_a_subclass_has_no_coordinate_descent_unless_it_says_so():
    assert CoxLikelihood.ccd == MatchedCoxLikelihood.ccd == "cox"
    assert FineGrayLikelihood.ccd is None
    assert PiecewiseCoxLikelihood.ccd is None

    class Other(CoxLikelihood):
        """A family of its own."""

    assert Other.ccd is None
