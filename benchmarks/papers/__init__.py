"""The experiments of five papers on penalised regression for health data, one module per paper."""
