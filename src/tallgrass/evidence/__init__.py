"""What an object's head and tail tell: object stores and format readers."""
