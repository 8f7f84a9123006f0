"""A server that keeps every rule of `toolgate verify` on all three APIs, with answers of a fixed
text instead of a model. A fault breaks one rule."""
