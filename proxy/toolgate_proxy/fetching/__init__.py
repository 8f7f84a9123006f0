"""Content of the web that clients or models name by its address."""
