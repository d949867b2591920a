"""The score board: the lanes of Compare write many problems with known answers, and what they get right is counted.

No Gradio here. `plan` chooses the problems, `lane` folds one lane's records, `standing` turns counts into what
may be said of them, `scoring` lets the lanes write, `scorer` waits for device and checkpoints; `messages` travel to the
page.
"""
