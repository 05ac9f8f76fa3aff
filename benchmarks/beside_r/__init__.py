"""R's own packages run on the same problems, as an oracle and as a competitor."""
