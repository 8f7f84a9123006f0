"""Files in requests as text for the model: their form in the prompt, and the text of PDFs."""
