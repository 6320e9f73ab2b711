"""What the chapters and the checks of the course *Transformers from Scratch* share.

``course_lib.reference`` says every formula in numpy, ``course_lib.blocks`` says it in PyTorch under
the same names, and ``course_lib.grading`` compares a student's function with the reference.
Importing the package imports none of them.
"""

__version__ = "0.1.0"
