"""Redis, a backend and the gateway as child processes of one command."""
