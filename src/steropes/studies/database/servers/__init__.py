"""Kinds of database servers, one module for each; a new module is a new kind."""
