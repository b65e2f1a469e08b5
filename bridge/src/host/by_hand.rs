//! Arguments that are made flat by hand; `bridge/hostgen/src/deviations.rs` lists them with the reasons.
use super::calls::pie::core::inference;
use crate::abi::Words;

/// A sampler or a probe (`pie:core/inference.sampler`).
#[repr(C)]
pub struct Sampler {
    pub kind: SamplerKind,
    pub temperature: f32,
    /// k, or the number of draws.
    pub count: u32,
    pub p: f32,
    /// The tokens of `Logprobs`.
    pub tokens: Words,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub enum SamplerKind {
    Multinomial,
    TopK,
    TopP,
    MinP,
    TopKTopP,
    Embedding,
    Distribution,
    Logits,
    Logprobs,
    Entropy,
}

/// Valid as long as `sampler`.
pub(super) fn sampler(sampler: &inference::Sampler) -> Sampler {
    use inference::Sampler as In;
    use SamplerKind as Kind;
    let make = |kind, temperature, count, p, tokens: &[u32]| Sampler {
        kind,
        temperature,
        count,
        p,
        tokens: Words::of(tokens),
    };
    match sampler {
        In::Multinomial((t, draws)) => make(Kind::Multinomial, *t, *draws, 1.0, &[]),
        In::TopK((t, k)) => make(Kind::TopK, *t, *k, 1.0, &[]),
        In::TopP((t, p)) => make(Kind::TopP, *t, 0, *p, &[]),
        In::MinP((t, p)) => make(Kind::MinP, *t, 0, *p, &[]),
        In::TopKTopP((t, k, p)) => make(Kind::TopKTopP, *t, *k, *p, &[]),
        In::Embedding => make(Kind::Embedding, 0.0, 0, 1.0, &[]),
        In::Dist((t, k)) => make(Kind::Distribution, *t, *k, 1.0, &[]),
        In::RawLogits => make(Kind::Logits, 0.0, 0, 1.0, &[]),
        In::Logprob(token) => make(Kind::Logprobs, 0.0, 0, 1.0, std::slice::from_ref(token)),
        In::Logprobs(tokens) => make(Kind::Logprobs, 0.0, 0, 1.0, tokens),
        In::Entropy => make(Kind::Entropy, 0.0, 0, 1.0, &[]),
    }
}
