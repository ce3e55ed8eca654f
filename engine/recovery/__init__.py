"""Recovery: from a log that was left behind to trees in memory (R-REC-1 to R-REC-66, R-RB-1 to R-RB-44)."""
