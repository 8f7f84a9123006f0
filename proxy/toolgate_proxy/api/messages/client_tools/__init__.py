"""Tools that Anthropic defines and clients run: bash, the text editor, memory, the computer."""
