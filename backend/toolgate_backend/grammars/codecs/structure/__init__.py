"""The structure of a prepared schema, from which codecs make their grammars."""
