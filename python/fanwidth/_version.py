"""The version: pyproject.toml reads it from here, and nothing else is imported to know it."""

__version__ = "0.1.0"
