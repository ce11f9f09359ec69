"""``python -m bandits.experiments [--quick] [NAME ...]``: write the tables."""

from bandits.experiments.command import main

if __name__ == "__main__":
    main()
