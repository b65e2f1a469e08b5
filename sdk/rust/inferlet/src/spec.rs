//! Speculative decoding: guess several tokens, verify them in one pass.

/// Proposes tokens that the next pass verifies.
pub trait Speculator: Send {
    /// Draft tokens and their absolute positions. Empty = no speculation in this step.
    fn draft(&mut self) -> (Vec<u32>, Vec<u32>);

    /// Is called with the tokens that were accepted: the drafts that matched, then the model's own next token.
    fn accept(&mut self, accepted: &[u32]);

    /// Is called when the last `n` drafted tokens were not accepted.
    fn rollback(&mut self, n: u32) {
        let _ = n;
    }

    /// Goes back to the initial state.
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

/// How many drafts the chosen tokens confirm. `chosen[i]` is the model's choice in place of `drafts[i]`; `chosen` has
/// one token more.
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
