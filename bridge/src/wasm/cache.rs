//! Compiled code on disk: `<dir>/<key>/<checksum>.cwasm`, where the key is over the component and the compiler's configuration and
//! the name carries the content's checksum. Written aside and renamed, so engines can share the folder; an entry whose
//! content does not match its name is removed and rebuilt.
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use wasmtime::component::Component;
use wasmtime::Engine;

pub struct CodeCache {
    dir: PathBuf,
}

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
        kept
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
