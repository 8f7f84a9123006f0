"""Commands that start servers: `toolgate serve`, `demo`, `proxy` and `backend`."""
