"""The pages: what each shows, asked of the API, a module each."""
