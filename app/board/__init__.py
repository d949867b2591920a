"""The score board: the lanes of Compare answer many problems with known answers, and it counts the right ones.

No Gradio here. `plan` chooses the problems, `lane` folds one lane's records, `standing` makes the row of a lane from
its counts, `scoring` runs the lanes, `scorer` waits for the device and the checkpoints, `messages` are what the page
reads.
"""
