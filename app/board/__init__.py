"""The score board: the lanes of Compare answer many problems with known answers, and it counts the right ones."""
