//! Compiled code on disk: `<dir>/<key>/<checksum>.cwasm`, where the key is over the component and the compiler's configuration and
//! the name carries the content's checksum. Written aside and renamed, so engines can share the folder; an entry whose
//! content does not match its name is removed and rebuilt. Past a limit, the entries used longest ago go.
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use wasmtime::component::Component;
use wasmtime::Engine;

pub struct CodeCache {
    dir: PathBuf,
}

/// What the folder may hold: some hundred Python or JavaScript programs, many thousand others.
const MOST_BYTES: u64 = 4 << 30;
/// A file that is still being written is younger than this; an older one was left by a process that was killed.
const WRITING: Duration = Duration::from_secs(3600);

/// Feeds the engine's own notion of compatibility into blake3.
struct KeyHasher(blake3::Hasher);
impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
    fn finish(&self) -> u64 {
        0
    }
}

impl CodeCache {
    pub fn new(dir: PathBuf) -> Self {
        CodeCache { dir }
    }

    fn entry(&self, engine: &Engine, component: &[u8]) -> PathBuf {
        let mut hasher = KeyHasher(blake3::Hasher::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        hasher.0.update(component);
        self.dir.join(&hasher.0.finalize().to_hex()[..32])
    }

    /// The compiled component, if a sound entry is there.
    pub fn find(&self, engine: &Engine, component: &[u8]) -> Option<Component> {
        for file in std::fs::read_dir(self.entry(engine, component))
            .ok()?
            .flatten()
        {
            let path = file.path();
            if path.extension().is_none_or(|e| e != "cwasm") {
                continue; // somebody is writing it
            }
            // Sound by checksum, hence what this engine's configuration once wrote: deserialising it is safe.
            if is_sound(&path) {
                if let Ok(found) = unsafe { Component::deserialize_file(engine, &path) } {
                    mark_used(&path);
                    return Some(found);
                }
            }
            let _ = std::fs::remove_file(&path);
        }
        None
    }

    /// Keep compiled code. A cache that cannot be written (a full disk, say) costs time, not correctness.
    pub fn keep(&self, engine: &Engine, component: &[u8], code: &[u8]) -> std::io::Result<()> {
        let entry = self.entry(engine, component);
        std::fs::create_dir_all(&entry)?;
        let unique = format!(
            "{}-{:?}.tmp",
            std::process::id(),
            std::thread::current().id()
        );
        let aside = entry.join(unique.replace(['(', ')'], ""));
        let kept = std::fs::write(&aside, code).and_then(|()| {
            std::fs::rename(&aside, entry.join(format!("{}.cwasm", checksum(code))))
        });
        if kept.is_err() {
            let _ = std::fs::remove_file(&aside);
        }
        self.prune(MOST_BYTES);
        kept
    }

    /// Removes what was left half-written, and the entries used longest ago until the rest fits. Code that runs stays
    /// mapped; a program that comes again is compiled again.
    fn prune(&self, most_bytes: u64) {
        let mut entries = vec![];
        let folders = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        for file in folders
            .flat_map(|folder| std::fs::read_dir(folder.path()))
            .flatten()
            .flatten()
        {
            let Ok(meta) = file.metadata() else { continue };
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if file.path().extension().is_some_and(|e| e == "cwasm") {
                entries.push((used, meta.len(), file.path()));
            } else if used.elapsed().is_ok_and(|age| age > WRITING) {
                let _ = std::fs::remove_file(file.path());
            }
        }
        entries.sort();
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in entries {
            if total <= most_bytes {
                return;
            }
            if std::fs::remove_file(&path).is_ok() {
                total -= bytes;
                let _ = path.parent().map(std::fs::remove_dir); // only if it is empty now
            }
        }
    }
}

/// An entry's time of last use is its time of modification.
fn mark_used(path: &Path) {
    if let Ok(file) = std::fs::File::options().append(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

fn checksum(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..32].to_string()
}

fn is_sound(path: &Path) -> bool {
    let named = path
        .file_stem()
        .and_then(|s| s.to_str())
        .unwrap_or_default();
    std::fs::read(path).is_ok_and(|bytes| checksum(&bytes) == named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first_and_what_was_left_half_written_goes_too() {
        let dir = std::env::temp_dir().join(format!("pie-cache-test-{}", std::process::id()));
        let cache = CodeCache::new(dir.clone());
        let put = |name: &str, age_s: u64| {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, [0; 100]).unwrap();
            let file = std::fs::File::options().append(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age_s))
                .unwrap();
            path
        };
        let old = put("a/old.cwasm", 500);
        let newer = put("b/newer.cwasm", 100);
        let abandoned = put("c/abandoned.tmp", 7200);
        let writing = put("c/writing.tmp", 10);
        cache.prune(150);
        assert!(!old.exists() && !old.parent().unwrap().exists());
        assert!(newer.exists() && writing.exists() && !abandoned.exists());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
