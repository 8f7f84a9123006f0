"""The grammar engines (xgrammar, llguidance) behind one interface, and the choice between them."""
