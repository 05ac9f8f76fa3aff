"""Proximal Newton steps for penalties of groups (group lasso, fused lasso) and within limits."""
