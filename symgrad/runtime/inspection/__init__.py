"""What a compiled step tells of itself: data that prints as tables."""
