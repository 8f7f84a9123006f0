"""A chat request on its way to a backend: bounds, images, and the form of the model's template."""
