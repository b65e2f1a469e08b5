//! Speculative decoding: guess several tokens, verify them in one pass.

/// Proposes tokens that the next pass verifies.
pub trait Speculator: Send {
    /// Draft tokens and their absolute positions. Empty = no speculation in this step.
    fn draft(&mut self) -> (Vec<u32>, Vec<u32>);

    /// The tokens that were accepted. The first is the model's own next token; the rest are drafts that
    /// matched (or the token that took the place of the first one that did not).
    fn accept(&mut self, accepted: &[u32]);

    /// Rolls back the last `n` drafted tokens.
    fn rollback(&mut self, n: u32) {
        let _ = n;
    }

    /// Back to the initial state.
    fn reset(&mut self) {}
}

/// Where a generator's drafts come from.
pub(crate) enum Drafter {
    None,
    Custom(Box<dyn Speculator>),
    /// The engine's own: what it drafted along with the last pass.
    Engine {
        tokens: Vec<u32>,
        positions: Vec<u32>,
    },
}

/// How many drafts the chosen tokens confirm: `chosen[i]` is what the model says should stand where
/// `drafts[i]` was put, and one more.
pub(crate) fn confirmed(drafts: &[u32], chosen: &[u32]) -> usize {
    drafts.iter().zip(chosen).take_while(|(draft, chosen)| draft == chosen).count()
}

#[cfg(test)]
mod tests {
    use super::confirmed;

    #[test]
    fn drafts_hold_until_the_first_that_differs() {
        assert_eq!(confirmed(&[1, 2, 3], &[1, 2, 9, 4]), 2);
        assert_eq!(confirmed(&[1, 2], &[1, 2, 3]), 2);
        assert_eq!(confirmed(&[1], &[2, 5]), 0);
        assert_eq!(confirmed(&[], &[2]), 0);
    }
}
