"""Settings, presets and specifications of case series."""
