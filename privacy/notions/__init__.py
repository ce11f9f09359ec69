"""Accounting methods, one per module."""
