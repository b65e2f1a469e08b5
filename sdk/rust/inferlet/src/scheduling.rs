//! Prices and balances of the market for KV pages.

use crate::context::Context;
use crate::model::Model;
use crate::pie::core::scheduling as raw;

/// The credits that a new KV page costs.
pub fn price() -> f64 {
    raw::price()
}

/// The clearing price of the last auction.
pub fn rent(ctx: &Context) -> f64 {
    raw::rent(ctx.inner())
}

/// This inferlet's share of the last revenue.
pub fn dividend(model: &Model) -> f64 {
    raw::dividend(model.inner())
}

/// The duration of the last batch, in seconds.
pub fn latency(ctx: &Context) -> f64 {
    raw::latency(ctx.inner())
}

/// The credits of this inferlet.
pub fn balance(model: &Model) -> f64 {
    raw::balance(model.inner())
}
