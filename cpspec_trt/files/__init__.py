"""Every file format this package reads or writes, and its validation."""
