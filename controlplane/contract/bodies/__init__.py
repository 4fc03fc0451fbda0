"""Bodies of requests and answers of the API, by domain."""
