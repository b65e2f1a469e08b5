"""The market for KV pages, read from inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wit_world.imports import scheduling as wit

from .model import Model, raw_of

if TYPE_CHECKING:
    from .context import Context


def balance(model: Model) -> float:
    """Credits left."""
    return wit.balance(raw_of(model))


def rent(ctx: Context) -> float:
    """The clearing price of the last auction."""
    return wit.rent(ctx._live())


def dividend(model: Model) -> float:
    """This inferlet's share of the last step's revenue."""
    return wit.dividend(raw_of(model))


def latency(ctx: Context) -> float:
    """Seconds a tick takes."""
    return wit.latency(ctx._live())


def price() -> float:
    """Credits that a new page costs."""
    return wit.price()
