"""Bias analysis: estimates without misclassification, confounding or selection of known size."""

from steropes.designs.bias_analysis.bias_parameters import trapezoid
from steropes.designs.bias_analysis.biases import (
    Misclassification,
    SelectionBias,
    UnmeasuredConfounder,
)
from steropes.designs.bias_analysis.corrected_estimates import BiasAnalysis, bias_analysis
from steropes.designs.bias_analysis.reclassified_records import reclassify_records
from steropes.designs.bias_analysis.tipping_points import e_values, tipping_point

__all__ = [
    "BiasAnalysis",
    "Misclassification",
    "SelectionBias",
    "UnmeasuredConfounder",
    "bias_analysis",
    "e_values",
    "reclassify_records",
    "tipping_point",
    "trapezoid",
]
