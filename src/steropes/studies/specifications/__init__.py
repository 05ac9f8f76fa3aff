"""Specifications of comparative studies: classes, files, presets and a demonstration."""
