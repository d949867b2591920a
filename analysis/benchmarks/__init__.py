"""What is asked: the six families of problems, IFEval and Spec-Bench, with their checks and their figures."""
