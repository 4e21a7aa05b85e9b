"""The session event journal: the timed history of a Pi session as a bundle of files.

``reduce`` folds a journal into a view of the conversation; ``verify`` says whether a bundle keeps the
format's rules. Both are loaded when they are asked for: the recorder needs neither.
"""
