//! The cache of compiled code on disk.
//!
//! An entry is the file `<dir>/<key>/<checksum>.cwasm`. The key is a hash of the component and of the compiler's settings; the
//! checksum is that of the file's content. A file is written under another name and then renamed, so several engines can share
//! the folder. An entry that does not match its checksum is removed and made again. When the folder exceeds its limit, the
//! least recently used entries are removed.
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use wasmtime::component::Component;
use wasmtime::Engine;

pub struct CodeCache {
    dir: PathBuf,
}

/// The size limit of the folder. It fits about a hundred Python or JavaScript programs, or thousands of others.
const MOST_BYTES: u64 = 4 << 30;
/// The age at which a file that was not renamed counts as abandoned: the process that wrote it was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Hashes with blake3 what wasmtime says about the compatibility of compiled code.
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

    /// Loads the compiled component, if there is an intact entry.
    pub fn find(&self, engine: &Engine, component: &[u8]) -> Option<Component> {
        for file in std::fs::read_dir(self.entry(engine, component))
            .ok()?
            .flatten()
        {
            let path = file.path();
            if path.extension().is_none_or(|e| e != "cwasm") {
                continue; // it is still being written
            }
            // The checksum matches, so an engine with these settings wrote the file. That makes deserialising it safe.
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

    /// Stores compiled code. If that fails (for example because the disk is full), the component is compiled again next time.
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

    /// Removes abandoned files, and then the least recently used entries until the rest fits. Code that is running stays
    /// mapped. A program whose entry was removed is compiled again.
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
            } else if used.elapsed().is_ok_and(|age| age > ABANDONED) {
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
                let _ = path.parent().map(std::fs::remove_dir); // fails unless the folder is empty
            }
        }
    }
}

/// Records the time of the last use as the time of modification.
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
    fn prune_removes_the_oldest_entries_and_abandoned_files() {
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
