//! Work that recurses deeply, on a stack of its own: a guest's stack is small.

/// Runs `work` on a thread with a stack of `bytes`, and waits for it. None if there is no thread, or if `work` panics.
pub fn run<T: Send>(name: &str, bytes: usize, work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name(name.into())
            .stack_size(bytes)
            .spawn_scoped(scope, work)
            .ok()?
            .join()
            .ok()
    })
}
