"""The command `toolgate`."""
