"""The commands of ``jetool fleet``, and what they share: which environments, and those that cannot be read."""
