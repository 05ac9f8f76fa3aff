"""The page of a grid: every estimate with its verdicts, and the pictures behind them.

It is made of the result tables alone, from which small cells are gone. A result that fails a
diagnostic is not shown unless asked for.
"""

from .page import grid_page, write_grid_report

__all__ = ["grid_page", "write_grid_report"]
