"""Whole models, made of the blocks, in PyTorch."""
