"""The exact results of a comparative study of one question."""
