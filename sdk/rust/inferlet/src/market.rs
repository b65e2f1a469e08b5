//! What a generator bids for its pages when nobody says otherwise.

/// How many steps a generation is expected to take still, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Expected {
    /// Mean of the remaining steps.
    pub steps: f64,
    /// Squared coefficient of variation: 0 = certain.
    pub variation: f64,
}

impl Expected {
    pub fn new(horizon: Option<usize>, max_tokens: Option<usize>, generated: usize) -> Self {
        let left = |total: usize| total.saturating_sub(generated).max(1) as f64;
        match (horizon, max_tokens) {
            (Some(horizon), _) => Self { steps: left(horizon), variation: 0.0 },
            (None, Some(max)) => Self { steps: left(max), variation: 1.0 },
            (None, None) => Self { steps: generated.max(64) as f64, variation: 1.0 },
        }
    }
}

/// Spreads the balance over the remaining steps and the pages that are held and will be needed:
/// (B/μ + d) / (p + μ(1 + cv²)/(2s)).
pub(crate) fn default_bid(
    balance: f64,
    dividend: f64,
    pages: u32,
    page_size: u32,
    expected: Expected,
) -> f64 {
    let Expected { steps, variation } = expected;
    let future_pages = steps * (1.0 + variation) / (2.0 * f64::from(page_size.max(1)));
    (balance / steps + dividend) / (f64::from(pages) + future_pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_known_length_decides() {
        assert_eq!(Expected::new(Some(10), Some(99), 4), Expected { steps: 6.0, variation: 0.0 });
        assert_eq!(Expected::new(None, Some(99), 9), Expected { steps: 90.0, variation: 1.0 });
        assert_eq!(Expected::new(None, None, 9), Expected { steps: 64.0, variation: 1.0 });
        assert_eq!(Expected::new(Some(3), None, 9).steps, 1.0);
    }

    #[test]
    fn bids_follow_the_formula() {
        let bid = default_bid(64.0, 1.0, 3, 16, Expected { steps: 32.0, variation: 1.0 });
        assert_eq!(bid, (64.0 / 32.0 + 1.0) / (3.0 + 2.0));
    }
}
