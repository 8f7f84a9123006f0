"""`python -m toolgate_proxy`: the command line, where no script is installed."""

from .ops.cli import main

if __name__ == "__main__":
    main()
