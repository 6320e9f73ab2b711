"""The texts and tasks that models of the course are trained on: numpy alone, seeded."""
