"""``jetool info``: the control data of an environment."""
