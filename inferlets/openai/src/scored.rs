//! Log-probabilities of tokens.

/// A token with its log-probability and its likeliest alternatives.
pub struct Scored {
    pub token: u32,
    pub logprob: f32,
    pub top: Vec<(u32, f32)>,
}

impl Scored {
    /// Finds a token and the `top` likeliest ones in the model's distribution.
    pub fn of(token: u32, ids: &[u32], probabilities: &[f32], top: usize) -> Scored {
        let mut ranked: Vec<(u32, f32)> = ids
            .iter()
            .copied()
            .zip(probabilities.iter().copied())
            .collect();
        let own = ranked
            .iter()
            .find(|(id, _)| *id == token)
            .map_or(0.0, |(_, p)| *p);
        let by_probability = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1);
        if top > 0 && top < ranked.len() {
            ranked.select_nth_unstable_by(top, by_probability);
        }
        ranked.truncate(top);
        ranked.sort_by(by_probability);
        let top = ranked
            .into_iter()
            .map(|(id, p)| (id, logarithm(p)))
            .collect();
        Scored {
            token,
            logprob: logarithm(own),
            top,
        }
    }
}

/// JSON has no infinity. The API writes this number for tokens that are practically impossible.
fn logarithm(probability: f32) -> f32 {
    if probability > 0.0 {
        probability.ln()
    } else {
        -9999.0
    }
}
