"""Grammars of JSON arguments whose objects have their members in any order.

The engines' own grammars of a schema have the schema's order. A model that would write another
order is then forced to values that it did not mean at that place.
"""
