"""Exceptions for operating-system errors. Each is both an `Error` and the corresponding `OSError`, so that either can
be caught.
"""

from ._forebay import Error


class Refused(Error, OSError):
    """The operating system refused an operation."""


class NotFound(Refused, FileNotFoundError):
    """The file does not exist."""


class NotPermitted(Refused, PermissionError):
    """Permission was denied."""


class AlreadyThere(Refused, FileExistsError):
    """The file already exists."""


class IsFolder(Refused, IsADirectoryError):
    """The path is a folder."""


class IsNoFolder(Refused, NotADirectoryError):
    """The path is not a folder."""
