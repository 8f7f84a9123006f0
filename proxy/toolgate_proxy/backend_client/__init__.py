"""HTTP client of one backend: requests, event streams, and what their errors mean."""
