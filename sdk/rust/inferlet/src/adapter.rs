//! LoRA adapters of a model.

use std::sync::Arc;

use crate::model::Model;
use crate::pie::core::adapter::Adapter as RawAdapter;
use crate::Result;

/// A LoRA adapter. Cloning shares the handle; `fork` copies the weights.
#[derive(Clone)]
pub struct Adapter(Arc<RawAdapter>);

impl Adapter {
    fn wrap(raw: RawAdapter) -> Self {
        Self(Arc::new(raw))
    }

    /// Creates an adapter of the model.
    pub fn create(model: &Model, name: &str) -> Result<Adapter> {
        RawAdapter::create(model.inner(), name).map(Self::wrap)
    }

    /// Opens the adapter of that name, if there is one.
    pub fn open(model: &Model, name: &str) -> Option<Adapter> {
        RawAdapter::open(model.inner(), name).map(Self::wrap)
    }

    /// Copies the adapter under a new name.
    pub fn fork(&self, new_name: &str) -> Adapter {
        Self::wrap(self.0.fork(new_name))
    }

    /// Writes the weights as a folder of the PEFT package, below `/scratch` or `/data`.
    pub fn save(&self, path: &str) -> Result<()> {
        self.0.save(path)
    }

    /// Reads a folder of the PEFT package, below `/scratch` or `/data`.
    pub fn load(&self, path: &str) -> Result<()> {
        self.0.load(path)
    }

    /// Removes the adapter from the engine.
    pub fn destroy(&self) {
        self.0.destroy()
    }

    /// The underlying resource.
    pub fn inner(&self) -> &RawAdapter {
        &self.0
    }
}
