//! One step of a generation.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use crate::output::{Output, ProbeHandle};
use crate::pass::Request;
use crate::sample::Probe;
use crate::Result;

use super::state::{State, StepRequests, Submitted};

/// A step that has not run yet.
#[must_use = "a step does nothing until it is executed"]
pub struct GenStep<'ctx> {
    state: Rc<RefCell<State<'ctx>>>,
    requests: StepRequests,
}

impl<'ctx> GenStep<'ctx> {
    pub(super) fn new(state: Rc<RefCell<State<'ctx>>>, each_step: usize) -> Self {
        Self { state, requests: StepRequests { samples: true, each_step, probes: Vec::new() } }
    }

    /// Makes the step choose no token. Read a probe, choose a token and pass it to `g.accept`.
    pub fn clear_sampler(&mut self) -> &mut Self {
        self.requests.samples = false;
        self
    }

    /// Adds a probe to this step. Index 0 is the row that is sampled.
    pub fn probe<P: Probe>(&mut self, index: u32, probe: P) -> ProbeHandle<P> {
        self.requests.probes.push(Request::probe(index, &probe));
        // Request 0 is the sampler, then come the probes of every step.
        ProbeHandle::new(self.requests.each_step + self.requests.probes.len())
    }

    /// Runs the pass, and accepts the tokens that its sampler chose. `g.accept` can replace them afterwards. If the
    /// pass fails or is cancelled, the context stays as it was before.
    pub async fn execute(self) -> Result<Output> {
        self.state.borrow_mut().open_step = false;
        let submitted = self.state.borrow_mut().submit(&self.requests)?;
        let mut running = Running { state: &self.state, submitted: Some(submitted) };
        let raw = running.submitted.as_mut().expect("taken below").pass.output().await?;
        let submitted = running.submitted.take().expect("taken once");
        self.state.borrow_mut().settle(submitted, raw)
    }
}

impl fmt::Debug for GenStep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenStep").finish_non_exhaustive()
    }
}

/// A queued step. Dropping it takes the step back.
struct Running<'a, 'ctx> {
    state: &'a Rc<RefCell<State<'ctx>>>,
    /// None once the step has run.
    submitted: Option<Submitted>,
}

impl Drop for Running<'_, '_> {
    fn drop(&mut self) {
        if let Some(submitted) = self.submitted.take() {
            self.state.borrow_mut().undo(submitted);
        }
    }
}
