"""Keeping the cache within its budget (R-EVT-1 to R-EVT-8)."""
