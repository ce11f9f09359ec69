"""Live agents: one recommender, one round at a time, and its state on disk."""
