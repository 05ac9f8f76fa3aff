"""Studies of one question as users see them: a comparison or a case series."""
