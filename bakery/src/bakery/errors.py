"""The error type that bakery shows to users: what was wrong, where, and what to do."""


class BakeryError(Exception):
    """A failure that the user can act on.

    `where` is "path:line" in the user's own source. `hint` says what to try next.
    """

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where
