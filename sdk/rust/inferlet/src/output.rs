//! The output of a pass, read through the handles that its builder returned.

use std::fmt;
use std::marker::PhantomData;

use crate::pie::core::inference::{Output as RawOutput, SlotOutput};
use crate::sample::{Distribution, Embedding, Entropy, GivesLogprobs, Logits};

/// Reads a sampler's tokens from the [`Output`] of its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleHandle(pub(crate) usize);

/// Reads the result of a probe of kind `P` from the [`Output`] of its pass.
pub struct ProbeHandle<P> {
    request: usize,
    /// The index of the token, in a step that chose several.
    index: usize,
    kind: PhantomData<fn() -> P>,
}

impl<P> ProbeHandle<P> {
    pub(crate) fn new(request: usize) -> Self {
        Self { request, index: 0, kind: PhantomData }
    }

    /// Returns the handle of the same probe at another token of a step that accepted several:
    /// `out.entropy(h.at(i))` belongs to `out.tokens[i]`. This handle reads the first token.
    pub fn at(self, index: usize) -> Self {
        Self { index, ..self }
    }
}

impl<P> Clone for ProbeHandle<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for ProbeHandle<P> {}

/// The handles that `out.embedding` reads: of [`Sampler::Embedding`](crate::Sampler::Embedding) and of the probe
/// [`Embedding`].
pub trait GivesEmbedding {
    #[doc(hidden)]
    fn request(&self) -> usize;
    #[doc(hidden)]
    fn index(&self) -> usize {
        0
    }
}

impl GivesEmbedding for SampleHandle {
    fn request(&self) -> usize {
        self.0
    }
}

impl GivesEmbedding for ProbeHandle<Embedding> {
    fn request(&self) -> usize {
        self.request
    }
    fn index(&self) -> usize {
        self.index
    }
}

impl<P> fmt::Debug for ProbeHandle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProbeHandle({}, {})", self.request, self.index)
    }
}

/// The output of a pass. Reading a slot through a handle of another kind gives None.
#[derive(Debug)]
pub struct Output {
    /// The tokens that a `Generator` accepted in this step, after stop and max-tokens cuts; empty for a
    /// raw `Forward`.
    pub tokens: Vec<u32>,
    raw: RawOutput,
    /// Where the slots of each request end; request i begins where i − 1 ends.
    ends: Vec<usize>,
    auto: Option<SampleHandle>,
}

impl Output {
    pub(crate) fn new(raw: RawOutput, ends: Vec<usize>, auto: Option<SampleHandle>) -> Self {
        Self { tokens: Vec::new(), raw, ends, auto }
    }

    /// The chosen token (the first one of several).
    pub fn token(&self, handle: SampleHandle) -> Option<u32> {
        match self.slots(handle.0).first()? {
            SlotOutput::Token(token) => Some(*token),
            _ => None,
        }
    }

    /// All tokens of a sampler, row by row and draw by draw.
    pub fn tokens_at(&self, handle: SampleHandle) -> Vec<u32> {
        let tokens = self.slots(handle.0).iter().filter_map(|slot| match slot {
            SlotOutput::Token(token) => Some(*token),
            _ => None,
        });
        tokens.collect()
    }

    /// Token ids and their probabilities, the likeliest first.
    pub fn distribution(&self, handle: ProbeHandle<Distribution>) -> Option<(&[u32], &[f32])> {
        match self.slots(handle.request).get(handle.index)? {
            SlotOutput::Distribution((ids, probabilities)) => Some((ids, probabilities)),
            _ => None,
        }
    }

    /// The logits of the row: one packed `f32` for each token of the vocabulary.
    pub fn logits(&self, handle: ProbeHandle<Logits>) -> Option<&[u8]> {
        match self.slots(handle.request).get(handle.index)? {
            SlotOutput::Logits(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The log-probabilities that the probe asked for, in its order.
    pub fn logprobs<P: GivesLogprobs>(&self, handle: ProbeHandle<P>) -> Option<&[f32]> {
        match self.slots(handle.request).get(handle.index)? {
            SlotOutput::Logprobs(values) => Some(values),
            _ => None,
        }
    }

    /// The entropy in nats; `None` for a handle of another pass.
    pub fn entropy(&self, handle: ProbeHandle<Entropy>) -> Option<f32> {
        match self.slots(handle.request).get(handle.index)? {
            SlotOutput::Entropy(value) => Some(*value),
            _ => None,
        }
    }

    /// The hidden state of the row (the first of several): packed `f32`.
    pub fn embedding(&self, handle: impl GivesEmbedding) -> Option<&[u8]> {
        match self.slots(handle.request()).get(handle.index())? {
            SlotOutput::Embedding(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The sampler that a `Generator` attached to the step; None for a raw `Forward` and after
    /// `clear_sampler()`.
    pub fn auto_sampler(&self) -> Option<SampleHandle> {
        self.auto
    }

    /// The slots and the engine's drafts, as the engine returned them.
    pub fn raw(&self) -> &RawOutput {
        &self.raw
    }

    fn slots(&self, request: usize) -> &[SlotOutput] {
        let Some(&end) = self.ends.get(request) else {
            return &[];
        };
        let begin = if request == 0 { 0 } else { self.ends[request - 1] };
        self.raw.slots.get(begin..end).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> Output {
        let raw = RawOutput {
            slots: vec![SlotOutput::Token(7), SlotOutput::Token(8), SlotOutput::Entropy(0.5)],
            spec_tokens: vec![],
            spec_positions: vec![],
        };
        // A cleared sampler (no slots), a sampler of two rows, a probe.
        Output::new(raw, vec![0, 2, 3], None)
    }

    #[test]
    fn handles_read_their_own_slots() {
        let out = output();
        assert_eq!(out.token(SampleHandle(1)), Some(7));
        assert_eq!(out.tokens_at(SampleHandle(1)), [7, 8]);
        assert_eq!(out.entropy(ProbeHandle::new(2)), Some(0.5));
    }

    #[test]
    fn the_wrong_handle_reads_nothing() {
        let out = output();
        assert_eq!(out.token(SampleHandle(0)), None);
        assert_eq!(out.token(SampleHandle(2)), None);
        assert_eq!(out.token(SampleHandle(9)), None);
        assert_eq!(out.entropy(ProbeHandle::new(1)), None);
        assert!(out.logits(ProbeHandle::new(2)).is_none());
        assert!(out.embedding(SampleHandle(1)).is_none());
    }
}
