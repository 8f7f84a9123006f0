"""The version of the distribution. `pyproject.toml` reads it from this file, when it is built."""

VERSION = "0.1.0"
