//! Speculative decoding: guess several tokens, verify them in one pass.

/// Proposes tokens that the next pass verifies.
pub trait Speculator: Send {
    /// Draft tokens and their absolute positions. Without positions, the drafts follow the sequence. Empty = no
    /// speculation in this step.
    fn draft(&mut self) -> (Vec<u32>, Vec<u32>);

    /// Is called with the tokens that were accepted: the drafts that matched, then the model's own next token.
    fn accept(&mut self, accepted: &[u32]);

    /// Is called when the last `n` drafted tokens were not accepted: because the model chose another token, a constraint
    /// refuses them, or the generation has ended before them.
    fn rollback(&mut self, n: u32) {
        let _ = n;
    }

    /// Goes back to the initial state. Is called when the generation has ended.
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
