"""Budgets that are spent step by step."""
