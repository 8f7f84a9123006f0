"""The page at `/`: its files, and the reference of our own API at `/docs`."""
