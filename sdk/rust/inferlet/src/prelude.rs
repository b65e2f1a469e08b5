//! The names that most inferlets use: `use inferlet::prelude::*;`.

pub use crate::adapter::Adapter;
pub use crate::context::Context;
pub use crate::forward::Forward;
pub use crate::generator::{GenStep, Generator};
pub use crate::model::Model;
pub use crate::output::{Output, ProbeHandle, SampleHandle};
pub use crate::sample::{Probe, Sampler};
pub use crate::spec::Speculator;
pub use crate::tools::Tool;
pub use crate::wait::{ChildExt, ForwardPassExt, FutureBlobExt, FutureStringExt, SubscriptionExt};
pub use crate::{chat, main, messaging, reasoning, runtime, tool, tools, Result, Schema};
