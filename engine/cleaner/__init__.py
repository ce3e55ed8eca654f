"""Utilization of log files, as far as a checkpoint persists it (R-CLN-1 to R-CLN-13)."""
