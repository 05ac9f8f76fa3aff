"""A comparative study of one question: its results before small counts are suppressed."""
