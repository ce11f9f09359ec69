"""Offline tools: data sets, item features, simulations and off-policy evaluation."""
