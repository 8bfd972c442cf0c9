"""What the system refuses: an `Error`, and the `OSError` of its kind too, so that either can be caught."""

from ._forebay import Error


class Refused(Error, OSError):
    """The system refuses what was asked for."""


class NotFound(Refused, FileNotFoundError):
    """There is no such file."""


class NotPermitted(Refused, PermissionError):
    """It may not be done."""


class AlreadyThere(Refused, FileExistsError):
    """There is such a file."""


class IsFolder(Refused, IsADirectoryError):
    """It is a folder."""


class IsNoFolder(Refused, NotADirectoryError):
    """It is no folder."""
