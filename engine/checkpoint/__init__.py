"""Checkpoints (R-CKPT-1 to R-CKPT-55)."""
