"""Authoring commands behind the Makefile. Nothing that a student imports."""
