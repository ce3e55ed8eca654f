"""Environments with a model, copies of real ones, and the directories of products."""
