"""Virtual keys: what a key is, where keys are kept, and how a gateway knows them."""
