"""One file for each form of calls. A dialect is listed in the order in which it is defined."""
