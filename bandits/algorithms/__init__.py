"""Algorithms as frozen descriptions; each states its privacy guarantee before it runs."""
