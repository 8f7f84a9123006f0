"""`toolgate launch`: runs a coding agent with a gateway, its key and a model."""
