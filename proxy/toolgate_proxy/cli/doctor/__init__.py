"""`toolgate doctor`: checks of an installation, one file for each topic."""
