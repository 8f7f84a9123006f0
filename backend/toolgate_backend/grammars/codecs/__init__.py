"""Grammars of codecs: the text of arguments that a schema allows, as rules of llguidance's Lark."""
