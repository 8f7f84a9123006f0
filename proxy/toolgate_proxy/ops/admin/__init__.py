"""`/toolgate/…`: the administrator's routes."""
