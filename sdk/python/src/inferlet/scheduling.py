"""The market for KV pages, read from inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wit_world.imports import scheduling as wit

from . import _check
from .model import Model, raw_of

if TYPE_CHECKING:
    from .context import Context


def balance(model: Model) -> float:
    """The credits of this inferlet."""
    return wit.balance(raw_of(model))


def rent(ctx: Context) -> float:
    """The clearing price of the last auction."""
    return wit.rent(_live(ctx))


def dividend(model: Model) -> float:
    """This inferlet's share of the last tick's revenue."""
    return wit.dividend(raw_of(model))


def latency(ctx: Context) -> float:
    """The duration of the last batch, in seconds."""
    return wit.latency(_live(ctx))


def price() -> float:
    """Credits that a new page costs."""
    return wit.price()


def _live(ctx: Context) -> Any:
    """The engine's handle of an argument that must be a context."""
    from .context import Context  # which imports most of this package

    _check.instance("ctx", ctx, Context, "Context(model)")
    return ctx._live()
