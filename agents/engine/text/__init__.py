"""Text to tokens and back: the tokenizer, the chat template, the stream of text."""
