"""Dominating pairs of one application of a mechanism, and their transforms."""
