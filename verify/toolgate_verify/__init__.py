"""`toolgate verify`: black-box checks of chat completions, Responses and Messages endpoints.

The package needs no gateway, no engine and no model: it sends requests to a URL and judges what
comes back by the public specifications of the three APIs."""
