"""The version of the distribution, alone in a module so that packaging can read it without importing the engine."""

VERSION = "0.1.0"
