"""``python -m bandits.experiments [--quick] [NAME ...]`` writes the tables."""

from bandits.experiments.command import main

if __name__ == "__main__":
    main()
