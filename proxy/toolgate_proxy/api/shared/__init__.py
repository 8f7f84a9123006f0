"""Request parsing that API surfaces share: parameters, tools, reasoning, content formats."""
