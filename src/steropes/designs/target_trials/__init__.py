"""Emulation of target trials from observed person-time (Hernán and Robins 2016)."""
