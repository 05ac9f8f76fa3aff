"""Result tables: their layouts, and how exact results become rows."""
