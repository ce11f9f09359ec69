"""Numerical tools that know nothing of privacy."""
