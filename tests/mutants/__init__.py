"""Small faults put into the product, one at a time: which tests notice them."""
