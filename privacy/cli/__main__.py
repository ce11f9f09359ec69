"""``python -m privacy.cli``: run the command when the `dpcalib` script is not on the path."""

from privacy.cli.app import main

if __name__ == "__main__":
    main(prog_name="dpcalib")
