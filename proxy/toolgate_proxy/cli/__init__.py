"""The `toolgate` command line."""
