"""Every formula of the course in numpy, as the formula reads."""
