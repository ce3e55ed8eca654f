"""What records mean: environments made after the formats by our own engine, round trips, damage."""
