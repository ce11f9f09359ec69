"""Clipping of contributions, and noise that is safe to release."""
