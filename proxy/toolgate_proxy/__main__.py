"""`python -m toolgate_proxy`: the command line, where no script is installed."""

from .cli.main import main

if __name__ == "__main__":
    main()
