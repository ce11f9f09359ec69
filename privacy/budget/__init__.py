"""Budgets: filters and odometers for adaptive use, and plans fixed in advance."""
