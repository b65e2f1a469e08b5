//! Boolean rows as run lengths: false, true, false, … beginning with false (a run of 0 begins with true).

/// The row that is true where both rows are. An empty row restricts nothing; a row is false past its end.
pub(crate) fn and(a: &[u32], b: &[u32]) -> Vec<u32> {
    if a.is_empty() || b.is_empty() {
        return if a.is_empty() { b.to_vec() } else { a.to_vec() };
    }
    let mut out = Builder::default();
    let (mut left, mut right) = (Runs::new(a), Runs::new(b));
    while let (Some((x, x_len)), Some((y, y_len))) = (left.peek(), right.peek()) {
        let len = x_len.min(y_len);
        out.push(x && y, len);
        left.advance(len);
        right.advance(len);
    }
    out.runs
}

/// Whether a mask allows no token. An empty row allows all.
pub(crate) fn is_none(row: &[u32]) -> bool {
    !row.is_empty() && row.iter().skip(1).step_by(2).all(|run| *run == 0)
}

/// Walks the runs of a row. Runs of length 0 are skipped.
struct Runs<'a> {
    runs: &'a [u32],
    index: usize,
    used: u32,
}

impl<'a> Runs<'a> {
    fn new(runs: &'a [u32]) -> Self {
        let mut walker = Self { runs, index: 0, used: 0 };
        walker.advance(0);
        walker
    }

    /// The value at this place, and how many places have it from here on.
    fn peek(&self) -> Option<(bool, u32)> {
        let run = self.runs.get(self.index)?;
        Some((self.index % 2 == 1, run - self.used))
    }

    fn advance(&mut self, by: u32) {
        self.used += by;
        while self.runs.get(self.index).is_some_and(|run| *run == self.used) {
            self.index += 1;
            self.used = 0;
        }
    }
}

#[derive(Default)]
struct Builder {
    runs: Vec<u32>,
}

impl Builder {
    fn push(&mut self, value: bool, len: u32) {
        // Runs at odd places are true, so a value extends the last run if that run's place has the value's parity.
        let last_is = self.runs.len().is_multiple_of(2);
        match self.runs.last_mut() {
            Some(last) if last_is == value => *last += len,
            None if value => self.runs.extend([0, len]),
            _ => self.runs.push(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(runs: &[u32]) -> Vec<bool> {
        let value = |(i, n): (usize, &u32)| vec![i % 2 == 1; *n as usize];
        runs.iter().enumerate().flat_map(value).collect()
    }

    #[test]
    fn an_empty_row_restricts_nothing() {
        assert_eq!(and(&[], &[2, 3]), [2, 3]);
        assert_eq!(and(&[2, 3], &[]), [2, 3]);
        assert!(and(&[], &[]).is_empty());
    }

    #[test]
    fn agrees_with_booleans() {
        let rows: [&[u32]; 6] =
            [&[0, 10], &[3, 4, 3], &[0, 1, 8, 1], &[10], &[5, 5], &[1, 0, 2, 7]];
        for a in rows {
            for b in rows {
                let both: Vec<bool> =
                    expand(a).iter().zip(expand(b)).map(|(x, y)| *x && y).collect();
                assert_eq!(expand(&and(a, b)), both, "{a:?} & {b:?}");
            }
        }
    }

    #[test]
    fn knows_a_mask_that_allows_nothing() {
        assert!(is_none(&[7]) && is_none(&[3, 0, 4]));
        assert!(!is_none(&[]) && !is_none(&[0, 1]) && !is_none(&[3, 0, 4, 1]));
    }

    #[test]
    fn the_shorter_row_ends_the_result() {
        assert_eq!(and(&[0, 4], &[0, 9]), [0, 4]);
    }
}
