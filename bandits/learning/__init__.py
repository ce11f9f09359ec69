"""What learns: a linear model, a posterior, an exploration, reward channels and schedules."""
