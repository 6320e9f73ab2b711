"""The exercises of each chapter, as data: one module a chapter, each with a list ``EXERCISES``."""
