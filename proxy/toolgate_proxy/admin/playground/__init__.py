"""Routes of the page's playground: pasted tools, and what a model writes without enforcement."""
