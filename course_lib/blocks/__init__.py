"""Every block of the course in PyTorch: the same files and names as in ``course_lib.reference``."""
