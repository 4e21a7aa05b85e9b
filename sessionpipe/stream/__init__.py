"""Standing in a pipe without being noticed: the bytes of a program's output go on at once, and somebody reads along.

:mod:`.front` is the side that must never be late; :mod:`.frames` is how it hands on what it saw;
:mod:`.child` runs a person's command as if nobody had. Nothing here knows what the bytes are.
"""
