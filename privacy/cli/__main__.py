"""``python -m privacy.cli``: the command where no script of it is on the path."""

from privacy.cli.app import main

if __name__ == "__main__":
    main(prog_name="dpcalib")
