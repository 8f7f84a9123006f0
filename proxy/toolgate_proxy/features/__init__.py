"""Tools that the gateway runs, or that the APIs of providers define: one folder each."""
