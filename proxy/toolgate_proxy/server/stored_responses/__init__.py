"""Routes of the Responses API beside `POST /v1/responses`."""
