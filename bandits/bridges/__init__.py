"""Bridges to other frameworks, which own the loop of rounds. Their packages are not imported."""
