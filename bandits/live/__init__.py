"""Live agents, which select actions round by round, and their checkpoints."""
