"""One chat request, from its plan to the events of its response. Knows no API and no host."""
