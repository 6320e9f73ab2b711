"""Settings that every test shares."""

from __future__ import annotations

import os

from hypothesis import settings

# No deadline: the machine is shared, and speed is measured in benchmarks/, never asserted. In CI
# the examples are the same every time, so a red run can be run again.
settings.register_profile("course", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "course")

# Tests pass no exercises in anybody's name, and open no windows.
os.environ["COURSE_LIB_PROGRESS"] = "off"
os.environ["MPLBACKEND"] = "agg"
