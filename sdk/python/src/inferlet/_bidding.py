"""The default bid for pages: spend the balance evenly over the steps that are still to come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wit_world.imports import scheduling

if TYPE_CHECKING:
    from .context import Context

STEPS_UNKNOWN = 64  # expected steps when neither a horizon nor a limit is given


def bid(ctx: Context, generated: int, horizon: int | None, limit: int | None) -> None:
    """Bids for the next pass, unless the program has bid for itself or is idle."""
    if ctx._idle or ctx._bid_held:
        return
    model = ctx.model._raw
    pages = ctx._pages
    value = default_bid(
        balance=scheduling.balance(model),
        dividend=scheduling.dividend(model),
        pages=pages.committed + pages.reserved,
        page_size=pages.page_size,
        steps_left=steps_left(generated, horizon, limit),
        spread=0.0 if horizon is not None else 1.0,
    )
    ctx._live().bid(value)
    ctx._bid_stale = False


def steps_left(generated: int, horizon: int | None, limit: int | None) -> int:
    """Expected remaining steps: by the hint, else by the limit, else as many as there were."""
    if horizon is not None:
        return max(1, horizon - generated)
    if limit is not None:
        return max(1, limit - generated)
    return max(STEPS_UNKNOWN, generated)


def default_bid(
    *, balance: float, dividend: float, pages: int, page_size: int, steps_left: int, spread: float
) -> float:
    """What can be paid a step, over the pages held now and, on average, until the end. `spread`:
    squared coefficient of variation of the remaining length, 0 when known, 1 when guessed."""
    growth = steps_left * (1.0 + spread) / (2.0 * page_size)
    return (balance / steps_left + dividend) / (pages + growth)
