"""Checks that unpenalised coefficients are identifiable and have finite estimates."""
