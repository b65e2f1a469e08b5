//! The line table of a program's sources, which bakery writes into the custom section `pie:lines` of a component. It is
//! much smaller than DWARF. It is read once from the beginning to the end, so a malformed section costs no more than a
//! valid one.

/// The section's name, preceded by its length.
const SECTION: &[u8] = b"\x09pie:lines";
const FORMAT: u32 = 1;
/// A larger section is ignored. bakery writes no larger one; the section of a large program has some ten kilobytes.
const MAX_BYTES: usize = 1 << 20;
/// How many bytes of a path are shown.
const PATH_BYTES: usize = 256;

/// The program owns it. The bytes are decoded when an instance traps.
pub struct Lines(Box<[u8]>);

impl Lines {
    /// Finds the section among those of a component.
    pub fn of(component: &[u8]) -> Option<Lines> {
        let mut rest = Numbers(component.get(8..)?);
        loop {
            let id = rest.byte()?;
            let size = rest.next()? as usize;
            let content = rest.bytes(size)?;
            if let (0, Some(found)) = (id, content.strip_prefix(SECTION)) {
                return (found.len() <= MAX_BYTES).then(|| Lines(found.into()));
            }
        }
    }

    /// The memory that the table takes.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Returns `FILE:LINE` for an instruction of the core module, or None if the instruction is not from the user's
    /// sources. `offset` counts from the beginning of the function's body.
    pub fn find(&self, function: u32, offset: u32) -> Option<String> {
        let mut rest = Numbers(&self.0);
        if rest.next()? != FORMAT {
            return None;
        }
        let files = (0..rest.next()?)
            .map(|_| {
                let length = rest.next()? as usize;
                rest.bytes(length)
            })
            .collect::<Option<Vec<&[u8]>>>()?;
        let mut index = 0u32;
        for _ in 0..rest.next()? {
            index = index.checked_add(rest.next()?)?;
            let rows = rest.next()?;
            let (mut at, mut place) = (0u32, (0, 0));
            for number in 0..rows {
                at = at.checked_add(rest.next()?)?;
                let row = (rest.next()? as usize, rest.next()?);
                // Instructions before the first row belong to the function's entry.
                if at <= offset || number == 0 {
                    place = row;
                }
            }
            if index == function {
                let path = files.get(place.0.checked_sub(1)?)?;
                let path = String::from_utf8_lossy(&path[..path.len().min(PATH_BYTES)]);
                return Some(format!("{path}:{}", place.1));
            }
        }
        None
    }
}

/// Reads LEB128 numbers and bytes from a slice.
struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn next(&mut self) -> Option<u32> {
        let mut number = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number).ok();
            }
        }
        None
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (found, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions 300 and 301 of `a.cpp` and `b/c.cpp`.
    const PAYLOAD: &[u8] = b"\x01\x02\x05a.cpp\x07b/c.cpp\x02\
        \xac\x02\x03\x02\x01\x07\x08\x00\x00\x04\x02\x80\x01\
        \x01\x01\x00\x01\x05";

    fn component(payload: &[u8]) -> Vec<u8> {
        let mut made = b"\0asm\x0d\0\x01\0\x01\x02xx".to_vec();
        made.extend([0, u8::try_from(SECTION.len() + payload.len()).unwrap()]);
        made.extend(SECTION);
        made.extend(payload);
        made
    }

    #[test]
    fn an_instruction_has_the_line_before_it() {
        let lines = Lines::of(&component(PAYLOAD)).unwrap();
        let at = |function, offset| lines.find(function, offset);
        assert_eq!(at(300, 0).as_deref(), Some("a.cpp:7"));
        assert_eq!(at(300, 2).as_deref(), Some("a.cpp:7"));
        assert_eq!(at(300, 9).as_deref(), Some("a.cpp:7"));
        assert_eq!(at(300, 10), None, "this is code of a library");
        assert_eq!(at(300, 1000).as_deref(), Some("b/c.cpp:128"));
        assert_eq!(at(301, 0).as_deref(), Some("a.cpp:5"));
        assert_eq!((at(299, 2), at(302, 2)), (None, None));
    }

    #[test]
    fn a_damaged_section_gives_no_line() {
        let whole = component(PAYLOAD);
        for length in 0..whole.len() {
            assert!(Lines::of(&whole[..length]).is_none(), "cut at {length}");
        }
        for length in 0..PAYLOAD.len() {
            let cut = Lines(PAYLOAD[..length].into());
            assert_eq!(cut.find(301, 0), None, "cut at {length}");
        }
        let mut other = PAYLOAD.to_vec();
        other[0] = 2; // another version
        assert_eq!(Lines(other.into()).find(301, 0), None);
        // Counts that are larger than any section, and the number of a file that does not exist.
        for damaged in [
            &b"\x01\xff\xff\xff\xff\x0f"[..],
            b"\x01\x00\xff\xff\xff\xff\x0f",
            b"\x01\x01\x01a\x01\x00\x01\x00\x02\x05",
        ] {
            assert_eq!(Lines(damaged.into()).find(0, 0), None);
        }
    }

    #[test]
    fn a_section_of_megabytes_is_left_out() {
        let mut made = b"\0asm\x0d\0\x01\0\0".to_vec();
        let size = SECTION.len() + MAX_BYTES + 1;
        made.extend([size & 0x7f | 0x80, size >> 7 & 0x7f | 0x80, size >> 14].map(|b| b as u8));
        made.extend(SECTION);
        made.resize(made.len() + MAX_BYTES + 1, 0);
        assert!(Lines::of(&made).is_none());
    }
}
