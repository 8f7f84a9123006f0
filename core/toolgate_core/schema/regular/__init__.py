"""Regular languages of strings: those of patterns, their complements and intersections."""
