"""Operations: the command `toolgate`, the administrator's routes, and the page."""


class CommandFailed(Exception):
    """Ends a command with exit status 2. The message says what failed and what to do."""

    shown = False
    """Whether the message was printed."""
