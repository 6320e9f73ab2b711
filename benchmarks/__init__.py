"""What is fast, measured against its peers in the same run, on the same machine and inputs."""
