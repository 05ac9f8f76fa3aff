"""Self-controlled case series from a database: cases, windows, intervals, model and report.

Each step returns a plain object. The model is fitted by the estimator
`steropes.SelfControlledCaseSeries`; ``sccs_study.py`` runs the steps in order.
"""
