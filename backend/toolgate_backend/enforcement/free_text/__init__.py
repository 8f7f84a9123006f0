"""Detection of texts in the tokens of free phases: reasoning and content."""
