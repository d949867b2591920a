"""Statistics of runs, with their intervals. Runs are the rows of docs/runs.md; no torch here.

`intervals`          a value with its interval; a share and Wilson's; the median of repeated timings
`resampling`         accuracy and speed of one run, with a bootstrap interval over problems
`pairs`, `turns`     two runs on the same problems, or turn by turn; the correction for many that are tried
`frontiers`          the speed of many settings at a loss
`calibration`        whether scores of mask proposals mean what they say
"""
