"""The public face of the engine: Environment, Database, Transaction, Cursor, EnvironmentConfig."""
