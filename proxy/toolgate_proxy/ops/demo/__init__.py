"""`toolgate demo`: its cases, its tool loop and its model."""
