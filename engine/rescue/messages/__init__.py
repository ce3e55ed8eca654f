"""Messages of JE, Derby and the frontends of Doris and StarRocks: cause, risk, next command (``table``)."""
