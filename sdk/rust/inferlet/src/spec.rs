//! Speculative decoding: guess several tokens, verify them in one pass.

/// Proposes tokens that the next pass verifies.
pub trait Speculator: Send {
    /// Returns draft tokens and their absolute positions. Without positions, the drafts follow the sequence. Without
    /// tokens, the step has no drafts.
    fn draft(&mut self) -> (Vec<u32>, Vec<u32>);

    /// Called with the accepted tokens: the drafts that matched, then one token of the model's own.
    fn accept(&mut self, accepted: &[u32]);

    /// Called if the last `n` drafted tokens were not accepted: the model chose another token, a constraint refused
    /// them, or the generation ended before them.
    fn rollback(&mut self, n: u32) {
        let _ = n;
    }

    /// Goes back to the initial state. Called when the generation has ended.
    fn reset(&mut self) {}
}

/// Where a generator's drafts come from.
pub(crate) enum Drafter {
    None,
    Custom(Box<dyn Speculator>),
    /// The drafts that the engine made along with the last pass.
    Engine {
        tokens: Vec<u32>,
        positions: Vec<u32>,
    },
}
