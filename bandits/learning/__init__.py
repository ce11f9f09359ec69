"""Components of a learner: models, posteriors, exploration, reward channels and schedules."""
