"""Files in requests as text for the model. The processes that read PDFs import this folder, so the
feature is in `parts.py`."""
