"""Numerical tools that are independent of privacy accounting."""
