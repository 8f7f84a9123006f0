"""One file per model family; kin share a file."""
