//! Samplers and probes: a [`Sampler`] chooses a token at a row of a pass, and a [`Probe`] reads what the model
//! computed there.

use crate::pie::core::inference::Sampler as RawSampler;
use crate::Result;

/// Chooses one token for each slot. Temperature 0 is greedy for every variant.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // the sentence of a variant speaks of its fields
pub enum Sampler {
    /// The likeliest token.
    Argmax,
    /// The smallest set of tokens whose probabilities reach `p`.
    TopP { temperature: f32, p: f32 },
    /// The `k` likeliest tokens.
    TopK { temperature: f32, k: u32 },
    /// Tokens at least `p` times as likely as the likeliest one.
    MinP { temperature: f32, p: f32 },
    /// The `k` likeliest tokens, then the nucleus of these.
    TopKTopP { temperature: f32, k: u32, p: f32 },
    /// `draws` independent draws from the whole distribution.
    Multinomial { temperature: f32, draws: u32 },
    /// No token, but the hidden state of the row after the model's last norm: `out.embedding(h)`. The probe
    /// [`Embedding`] reads the same.
    Embedding,
}

impl Sampler {
    /// Nucleus sampling: the likeliest tokens whose probabilities add up to `p`.
    pub const fn top_p(temperature: f32, p: f32) -> Self {
        Self::TopP { temperature, p }
    }

    /// One of the `k` likeliest tokens.
    pub const fn top_k(temperature: f32, k: u32) -> Self {
        Self::TopK { temperature, k }
    }

    /// Tokens at least `p` times as likely as the likeliest.
    pub const fn min_p(temperature: f32, p: f32) -> Self {
        Self::MinP { temperature, p }
    }

    /// The `k` likeliest, then the nucleus of these.
    pub const fn top_k_top_p(temperature: f32, k: u32, p: f32) -> Self {
        Self::TopKTopP { temperature, k, p }
    }

    /// From the whole distribution; `draws` independent tokens at each row.
    pub const fn multinomial(temperature: f32, draws: u32) -> Self {
        Self::Multinomial { temperature, draws }
    }

    /// No token, but the hidden state of the row after the model's last norm.
    pub const fn embedding() -> Self {
        Self::Embedding
    }

    pub(crate) fn chooses(self) -> bool {
        !matches!(self, Self::Embedding)
    }

    pub(crate) fn to_raw(self) -> RawSampler {
        match self {
            Self::Embedding => RawSampler::Embedding,
            Self::Argmax => RawSampler::TopK((0.0, 1)),
            Self::TopP { temperature, p } => RawSampler::TopP((temperature, p)),
            Self::TopK { temperature, k } => RawSampler::TopK((temperature, k)),
            Self::MinP { temperature, p } => RawSampler::MinP((temperature, p)),
            Self::TopKTopP { temperature, k, p } => RawSampler::TopKTopP((temperature, k, p)),
            Self::Multinomial { temperature, draws } => {
                RawSampler::Multinomial((temperature, draws))
            }
        }
    }

    /// The number of slots that one row fills.
    pub(crate) fn slots_per_row(self) -> usize {
        match self {
            Self::Multinomial { draws, .. } => draws.max(1) as usize,
            _ => 1,
        }
    }
}

/// Fails where a temperature or a share is outside its range. The constructors are `const`, so the check comes when the
/// sampler or probe is used, before anything is computed.
pub(crate) fn check_ranges(raw: &RawSampler) -> Result<()> {
    let (temperature, p) = match *raw {
        RawSampler::TopP((temperature, p)) | RawSampler::MinP((temperature, p)) => (temperature, p),
        RawSampler::TopKTopP((temperature, _, p)) => (temperature, p),
        RawSampler::TopK((temperature, _)) | RawSampler::Multinomial((temperature, _)) => {
            (temperature, 0.0)
        }
        RawSampler::Dist((temperature, _)) => (temperature, 0.0),
        _ => return Ok(()),
    };
    if !temperature.is_finite() || temperature < 0.0 {
        return Err(format!("temperature must be 0 or more, not {temperature}"));
    }
    if !(0.0..=1.0).contains(&p) {
        return Err(format!("p must be between 0 and 1, not {p}"));
    }
    Ok(())
}

/// Reads what the model computed at a position, without choosing a token.
pub trait Probe {
    #[doc(hidden)]
    fn to_raw(&self) -> RawSampler;
}

/// All logits before the softmax: `out.logits(h)`, packed `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Logits;

/// The `k` likeliest tokens and their probabilities at `temperature`; `k = 0` for the whole vocabulary.
#[derive(Clone, Copy, Debug)]
pub struct Distribution {
    /// The logits are divided by this before the softmax.
    pub temperature: f32,
    /// How many tokens; 0 for the whole vocabulary.
    pub k: u32,
}

/// The log-probability of one token.
#[derive(Clone, Copy, Debug)]
pub struct Logprob(pub u32);

/// The log-probabilities of several tokens, in their order.
#[derive(Clone, Copy, Debug)]
pub struct Logprobs<T = Vec<u32>>(pub T);

/// The Shannon entropy of the unscaled distribution.
#[derive(Clone, Copy, Debug)]
pub struct Entropy;

/// The hidden state of the row after the model's last norm: `out.embedding(h)`, packed `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Embedding;

impl Probe for Logits {
    fn to_raw(&self) -> RawSampler {
        RawSampler::RawLogits
    }
}

impl Probe for Distribution {
    fn to_raw(&self) -> RawSampler {
        RawSampler::Dist((self.temperature, self.k))
    }
}

impl Probe for Logprob {
    fn to_raw(&self) -> RawSampler {
        RawSampler::Logprob(self.0)
    }
}

impl<T: AsRef<[u32]>> Probe for Logprobs<T> {
    fn to_raw(&self) -> RawSampler {
        RawSampler::Logprobs(self.0.as_ref().to_vec())
    }
}

impl Probe for Entropy {
    fn to_raw(&self) -> RawSampler {
        RawSampler::Entropy
    }
}

impl Probe for Embedding {
    fn to_raw(&self) -> RawSampler {
        RawSampler::Embedding
    }
}

/// The probes that `out.logprobs` reads: [`Logprob`] and [`Logprobs`].
pub trait GivesLogprobs: Probe {}
impl GivesLogprobs for Logprob {}
impl<T: AsRef<[u32]>> GivesLogprobs for Logprobs<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_and_the_argument_is_named() {
        let said = |sampler: Sampler| check_ranges(&sampler.to_raw());
        let temperature = |t: &str| Err(format!("temperature must be 0 or more, not {t}"));
        let share = |p: &str| Err(format!("p must be between 0 and 1, not {p}"));
        assert_eq!(said(Sampler::top_p(-1.0, 0.9)), temperature("-1"));
        assert_eq!(said(Sampler::top_k(f32::INFINITY, 3)), temperature("inf"));
        assert_eq!(said(Sampler::multinomial(f32::NAN, 1)), temperature("NaN"));
        assert_eq!(said(Sampler::top_p(1.0, 1.5)), share("1.5"));
        assert_eq!(said(Sampler::min_p(1.0, -0.5)), share("-0.5"));
        assert_eq!(said(Sampler::top_k_top_p(1.0, 3, f32::NAN)), share("NaN"));
        let probe = Distribution { temperature: -2.0, k: 0 };
        assert_eq!(check_ranges(&probe.to_raw()), temperature("-2"));
        for fine in [Sampler::Argmax, Sampler::top_p(0.0, 1.0), Sampler::min_p(2.0, 0.0)] {
            assert_eq!(said(fine), Ok(()));
        }
        assert_eq!(said(Sampler::Embedding), Ok(()));
    }
}
