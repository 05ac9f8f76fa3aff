"""Effects of treatments that change with time: marginal structural models and g-computation."""
