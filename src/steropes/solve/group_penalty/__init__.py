"""Proximal Newton steps for penalties of groups of coefficients (group lasso and fused lasso)."""
