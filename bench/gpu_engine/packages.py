"""What is packed for a bare machine, and what is there. This module imports no packages."""

ARCHIVE = "packed.tar.xz"
SITE, MODEL = "site", "model"
"""Folders in it: of packages, and of the model."""
CARRIED = ()
"""Packages, beside vLLM, that its engine and Toolgate's plug-in import."""
PROVIDED = ()
"""Packages among those that images with PyTorch and transformers have."""
