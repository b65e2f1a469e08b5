//! Where an accepted sequence ends.

/// How many tokens are kept, and whether the generation ends with them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub kept: usize,
    pub ends: bool,
}

/// Cuts at the first stop token (not kept), then at `room` tokens.
pub(super) fn cut(tokens: &[u32], stops: &[u32], room: usize) -> Cut {
    let stop = tokens.iter().position(|token| stops.contains(token));
    let kept = stop.unwrap_or(tokens.len());
    if kept >= room {
        return Cut { kept: room, ends: true };
    }
    Cut { kept, ends: stop.is_some() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_token_ends_and_is_not_kept() {
        assert_eq!(cut(&[1, 2, 9, 3], &[9], usize::MAX), Cut { kept: 2, ends: true });
        assert_eq!(cut(&[9], &[8, 9], usize::MAX), Cut { kept: 0, ends: true });
    }

    #[test]
    fn room_runs_out_exactly_at_the_limit() {
        assert_eq!(cut(&[1], &[], 2), Cut { kept: 1, ends: false });
        assert_eq!(cut(&[1, 2], &[], 2), Cut { kept: 2, ends: true });
        assert_eq!(cut(&[1, 2, 3], &[], 2), Cut { kept: 2, ends: true });
        assert_eq!(cut(&[1], &[], 0), Cut { kept: 0, ends: true });
    }

    #[test]
    fn the_first_of_both_limits_decides() {
        assert_eq!(cut(&[1, 9, 3], &[9], 3), Cut { kept: 1, ends: true });
        assert_eq!(cut(&[1, 2, 9], &[9], 1), Cut { kept: 1, ends: true });
    }
}
