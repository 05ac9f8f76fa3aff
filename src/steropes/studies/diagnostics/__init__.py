"""Diagnostics that decide whether an estimate may be shown."""
