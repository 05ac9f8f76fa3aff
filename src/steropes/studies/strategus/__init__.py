"""Strategus and ATLAS specifications: reading, checking, translation and running."""
