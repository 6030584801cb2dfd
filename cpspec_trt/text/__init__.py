"""Tokenizer, speakers, languages and the prompt layouts as rows of ids."""
