"""A Hugging Face checkpoint on disk: its configuration, dtypes, shards and tensor names."""
