//! The limits of one rendering. A template comes with a model file and is not trusted: the engine counts its
//! instructions (fuel), and every operation that can make a value larger is charged here first.
use minijinja::{Error, ErrorKind};
use std::cell::Cell;

/// The longest template that is read.
pub const SOURCE_BYTES: usize = 1 << 20;
/// Instructions of a rendering, before those that its input adds.
pub const FUEL: u64 = 200_000;
pub const FUEL_A_MESSAGE: u64 = 10_000;
pub const FUEL_A_BYTE: u64 = 10;
/// Bytes that a rendering may move, before those that its input adds.
pub const WORK_BYTES: u64 = 32 << 20;
pub const WORK_A_BYTE: u64 = 256;
/// Items of a list that a template makes.
pub const LIST_ITEMS: usize = 1 << 18;
/// Digits of a width in a format string.
pub const FORMAT_DIGITS: usize = 3;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// Begins a rendering on this thread.
pub fn begin(bytes: u64) {
    LEFT.set(bytes);
}

/// Takes `bytes` from the budget of this thread's rendering. Ends the rendering if too few are left.
pub fn charge(bytes: usize) -> Result<(), Error> {
    let left = LEFT.get();
    let bytes = bytes as u64;
    if bytes > left {
        LEFT.set(0);
        return Err(Error::new(
            ErrorKind::OutOfFuel,
            "the template writes too much text",
        ));
    }
    LEFT.set(left - bytes);
    Ok(())
}
