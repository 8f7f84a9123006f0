"""The access log, and filters of other logs."""
