"""One chat request, from its plan to the events of its response. Independent of API and host."""
