"""Settings: frozen dataclasses whose values are checked by their types."""
