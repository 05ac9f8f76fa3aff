"""SQL of birthdays and of ages in completed years."""

from __future__ import annotations

__all__ = ["age_sql", "birthday_sql"]


def birthday_sql(born: str, years: int) -> str:
    """Return SQL of the day that `birthday` of arrays gives, for a column of dates."""
    month = f"make_date(year({born}) + {int(years)}, month({born}), 1)"
    return f"({month} + (day({born}) - 1)::INTEGER)"


def age_sql(born: str, on: str) -> str:
    """Return SQL of the age in completed years, from two columns of dates."""
    before = f"(month({on}), day({on})) < (month({born}), day({born}))"
    return f"(year({on}) - year({born}) - ({before})::BIGINT)"
