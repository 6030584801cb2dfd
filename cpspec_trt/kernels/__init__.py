"""The operations of drafting, verifying and accepting."""
