"""The one error that bakery shows to a person: what was wrong, where, and what to do."""


class BakeryError(Exception):
    """A failure the user can act on.

    `where` is "path:line" of the user's own source; `hint` is the next thing to try.
    """

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where
