"""Random walks through the masks of hostile tools, without an engine."""
