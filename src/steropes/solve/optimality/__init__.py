"""Violations of the optimality (KKT) conditions, their units and the certificate of a fit."""
