"""What may be spent, and on what: plans that a person writes down before anything runs."""
