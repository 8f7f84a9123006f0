"""A request to the engine, whichever API sent it: its tools, and how they are enforced."""
