"""Private contextual bandits, assembled from the mechanisms of `privacy`.

The public names are those in ``__all__``. This package imports the public
names of `privacy` and nothing below them.
"""

__all__: list[str] = []
