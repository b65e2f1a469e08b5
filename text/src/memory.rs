//! Counts the memory that each thread allocates. So the memory of a thing that a crate makes is known without asking the
//! crate: it is what was allocated while the thing was made, less what was freed.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// The bytes that this thread has allocated, less those that it has freed. It wraps around.
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

/// The allocator of the system, with the count.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: isize) {
    // The counter of a thread that is ending may be gone.
    let _ = BYTES.try_with(|all| all.set(all.get().wrapping_add(bytes)));
}

// SAFETY: every call goes to the system's allocator as it is; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        System.alloc(layout)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        System.alloc_zeroed(layout)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        System.dealloc(at, layout);
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        System.realloc(at, layout, size)
    }
}

/// Does the work, and returns how many bytes more this thread has allocated than freed meanwhile.
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, isize) {
    let before = BYTES.get();
    let value = work();
    (value, BYTES.get().wrapping_sub(before))
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn what_is_kept_is_counted() {
        let (kept, bytes) = counted(|| {
            drop(vec![0u8; 1 << 20]);
            vec![1u8; 1 << 16]
        });
        assert!((1 << 16..1 << 17).contains(&bytes), "{bytes}");
        assert_eq!(counted(|| drop(kept)).1, -(1 << 16));
        let mut grown = vec![0u8; 1];
        assert!(counted(|| grown.resize(1 << 16, 0)).1 >= (1 << 16) - 1);
    }

    #[test]
    fn other_threads_are_not_counted() {
        let (_, bytes) = counted(|| {
            std::thread::spawn(|| vec![0u8; 1 << 20].len())
                .join()
                .unwrap()
        });
        assert!(bytes < 1 << 16, "{bytes}");
    }
}
