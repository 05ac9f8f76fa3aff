"""The self-controlled case series from a database: cases, windows, intervals, model, report.

What each step gives is a plain object, and nothing here fits anything itself: the estimator is
`steropes.SelfControlledCaseSeries`. ``study.py`` is the order of the steps.
"""
