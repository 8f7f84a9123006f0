"""`toolgate demo`: the cases and the tool loop it runs, and the model it runs them on."""
