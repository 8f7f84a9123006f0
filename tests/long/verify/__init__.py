"""Toolgate and the servers that it is compared with, verified by `toolgate verify`."""
