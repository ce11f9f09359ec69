"""Descriptions of algorithms: parts put together, with a guarantee before anything runs."""
