//! Biases and penalties: the logits come to the inferlet, which changes them and draws the token itself.

use crate::options::Options;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The biases and penalties that change the logits of a choice.
#[derive(Default, Clone)]
pub struct Bias {
    pub added: HashMap<u32, f32>,
    /// Subtracted from the logit of each token that occurs in the answer.
    pub presence: f32,
    /// Subtracted from the logit for each time that the token occurs in the answer.
    pub frequency: f32,
}

impl Bias {
    pub fn is_none(&self) -> bool {
        self.added.is_empty() && self.presence == 0.0 && self.frequency == 0.0
    }
}

/// Draws the tokens of one choice.
pub struct Draw<'a> {
    options: &'a Options,
    seen: HashMap<u32, u32>,
    state: u64,
}

impl<'a> Draw<'a> {
    /// `seed` is the choice's own. Without one, the draws differ from run to run.
    pub fn new(options: &'a Options, seed: Option<u64>) -> Draw<'a> {
        let state = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        Draw {
            options,
            seen: HashMap::new(),
            state,
        }
    }

    /// Draws a token from the packed logits of the whole vocabulary. `mask` has run lengths of forbidden and allowed
    /// tokens, beginning with forbidden ones. An empty mask allows all tokens.
    pub fn next(&mut self, packed: &[u8], mask: &[u32]) -> inferlet::Result<u32> {
        let number = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let mut logits: Vec<f32> = packed.chunks_exact(4).map(number).collect();
        let bias = &self.options.bias;
        for (token, added) in &bias.added {
            if let Some(logit) = logits.get_mut(*token as usize) {
                *logit += added;
            }
        }
        for (token, count) in &self.seen {
            if let Some(logit) = logits.get_mut(*token as usize) {
                *logit -= bias.presence + bias.frequency * *count as f32;
            }
        }
        for token in &self.options.banned {
            if let Some(logit) = logits.get_mut(*token as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
        if !self.options.only.is_empty() {
            for (token, logit) in logits.iter_mut().enumerate() {
                if !self.options.only.contains(&(token as u32)) {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
        forbid(&mut logits, mask);
        if logits.iter().all(|logit| *logit == f32::NEG_INFINITY) {
            return Err("the form of the answer and 'logit_bias' allow no token together".into());
        }
        let (temperature, top_p) = (self.options.temperature, self.options.top_p);
        let uniform = self.uniform();
        let token = choose(&logits, temperature, self.options.top_k, top_p, uniform);
        *self.seen.entry(token).or_default() += 1;
        Ok(token)
    }

    /// A number from 0 to 1, by SplitMix64.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn forbid(logits: &mut [f32], mask: &[u32]) {
    if mask.is_empty() {
        return;
    }
    let mut begin = 0;
    for (index, run) in mask.iter().enumerate() {
        let end = begin + (*run as usize).min(logits.len() - begin);
        if index % 2 == 0 {
            logits[begin..end].fill(f32::NEG_INFINITY);
        }
        begin = end;
    }
    logits[begin..].fill(f32::NEG_INFINITY); // a mask forbids what is past its end
}

fn choose(logits: &[f32], temperature: f32, top_k: Option<u32>, top_p: f32, uniform: f64) -> u32 {
    let mut ranked: Vec<(u32, f32)> = (0u32..).zip(logits.iter().copied()).collect();
    let by_logit = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if temperature == 0.0 {
        return ranked
            .iter()
            .copied()
            .min_by(by_logit)
            .map_or(0, |best| best.0);
    }
    ranked.sort_unstable_by(by_logit);
    if let Some(top_k) = top_k {
        ranked.truncate(top_k.max(1) as usize);
    }
    let most = ranked.first().map_or(0.0, |best| best.1);
    let weights: Vec<f64> = ranked
        .iter()
        .map(|(_, logit)| f64::from((logit - most) / temperature).exp())
        .collect();
    let total: f64 = weights.iter().sum();
    // The smallest set of tokens whose probabilities reach top_p.
    let mut nucleus = 0.0;
    let mut size = 0;
    while size < weights.len() && (size == 0 || nucleus < f64::from(top_p) * total) {
        nucleus += weights[size];
        size += 1;
    }
    let mut left = uniform * nucleus;
    for (index, weight) in weights[..size].iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return ranked[index].0;
        }
    }
    ranked[size.saturating_sub(1)].0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_token_without_temperature() {
        assert_eq!(choose(&[0.0, 3.0, 3.0, -1.0], 0.0, None, 1.0, 0.99), 1);
    }

    #[test]
    fn masks_forbid_tokens() {
        let mut logits = [1.0; 6];
        forbid(&mut logits, &[1, 2, 1, 1]);
        let no = f32::NEG_INFINITY;
        assert_eq!(logits, [no, 1.0, 1.0, no, 1.0, no]);
        forbid(&mut logits, &[]);
        assert_eq!(logits[1], 1.0);
        forbid(&mut logits, &[u32::MAX]);
        assert_eq!(logits, [no; 6]);
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let logits = [0.0, f32::NEG_INFINITY, 2f32.ln()];
        assert_eq!(choose(&logits, 1.0, None, 1.0, 0.6), 2);
        assert_eq!(choose(&logits, 1.0, None, 1.0, 0.7), 0);
        assert_eq!(choose(&logits, 1.0, None, 0.5, 0.99), 2); // the nucleus is one token
        assert_eq!(choose(&logits, 1.0, Some(1), 1.0, 0.99), 2);
    }
}
