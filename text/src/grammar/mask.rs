//! The tokens that may come next.
use llguidance::toktrie::SimpleVob;

pub struct Mask(pub(super) SimpleVob);

impl Mask {
    pub fn allows(&self, token: u32) -> bool {
        (token as usize) < self.0.len() && self.0.is_allowed(token)
    }

    pub fn count(&self) -> usize {
        self.0.num_set()
    }

    /// One bit per token, the lowest first.
    pub fn bits(&self) -> &[u32] {
        self.0.as_slice()
    }

    /// The same without a copy.
    pub fn into_bits(self) -> Vec<u32> {
        self.0.into()
    }

    /// Lengths of runs of forbidden and allowed tokens in turn, beginning with forbidden ones.
    pub fn runs(&self) -> Vec<u32> {
        let size = self.0.len() as u32;
        let (mut runs, mut from, mut allowed) = (Vec::new(), 0, false);
        let mut at = 0;
        while at < size {
            let word = self.0.as_slice()[at as usize / 32];
            let rest = if allowed { !word } else { word } >> (at % 32);
            if rest == 0 {
                at = (at / 32 + 1) * 32; // nothing changes in this word
                continue;
            }
            at += rest.trailing_zeros();
            if at >= size {
                break;
            }
            runs.push(at - from);
            (from, allowed) = (at, !allowed);
        }
        if allowed {
            runs.push(size - from);
        }
        runs
    }
}
