"""What the house promises of its own code: figures that documents quote, measured."""
