"""What may be spent: filters for adaptive use, and plans that are written down in advance."""
