//! LoRA adapters of a model.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::model::Model;
use crate::pie::core::adapter::Adapter as RawAdapter;
use crate::pie::plus::adapters;
use crate::Result;

/// The two files of a folder of the PEFT package: `config` is the text of `adapter_config.json`, `tensors` the content
/// of `adapter_model.safetensors`.
pub use crate::pie::plus::adapters::Files;

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

    /// Opens the adapter of that name, if there is one. Panics where `try_open` returns an error.
    pub fn open(model: &Model, name: &str) -> Option<Adapter> {
        Self::try_open(model, name).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Opens the adapter of that name, if there is one. Fails if the adapter cannot be read.
    pub fn try_open(model: &Model, name: &str) -> Result<Option<Adapter>> {
        Ok(adapters::open(model.inner(), name)?.map(Self::wrap))
    }

    /// The names of your adapters of the model, in alphabetical order.
    pub fn names(model: &Model) -> Result<Vec<String>> {
        adapters::names(model.inner())
    }

    /// Copies the adapter under a new name. Panics where `try_fork` returns an error.
    pub fn fork(&self, new_name: &str) -> Adapter {
        self.try_fork(new_name).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Copies the adapter under a new name. Fails if the name is taken.
    pub fn try_fork(&self, new_name: &str) -> Result<Adapter> {
        adapters::fork(&self.0, new_name).map(Self::wrap)
    }

    /// Writes the weights as a folder of the PEFT package, below `/scratch` or `/data`.
    pub fn save(&self, path: &str) -> Result<()> {
        self.0.save(path)
    }

    /// Reads a folder of the PEFT package, below `/scratch` or `/data`.
    pub fn load(&self, path: &str) -> Result<()> {
        self.0.load(path)
    }

    /// Returns the files that `save` would write, for example to send them to the client.
    pub fn export(&self) -> Result<Files> {
        adapters::export_files(&self.0)
    }

    /// Does what `load` does, with files that a client has sent.
    pub fn import(&self, config: &str, tensors: &[u8]) -> Result<()> {
        adapters::import_files(&self.0, config, tensors)
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

/// A function of the raw bindings takes a `&Adapter` too.
impl Deref for Adapter {
    type Target = RawAdapter;

    fn deref(&self) -> &RawAdapter {
        self.inner()
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter").finish_non_exhaustive()
    }
}
