//! The cache of compiled code on disk.
//!
//! An entry is the file `<dir>/<key>/<checksum>.<owner>.cwasm`. The key is a hash of the component and of the compiler's
//! settings; the checksum is that of the file's content; the owner is a hash of the name of the user for whom it was
//! compiled. A file is written under another name and then renamed, so several engines can share the folder. An entry
//! that does not match its checksum is removed and made again.
//!
//! When the folder exceeds its limit, the user whose entries take most space loses the least recently used one, again
//! and again until the rest fits. So a user who fills the folder pushes out only their own entries.
//!
//! The files hold machine code, so a file that another user could have written is not used: the folder and its files
//! must belong to the user who runs the engine, and no other user may write to them.
use std::collections::HashMap;
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::hash::{Hash, Hasher};
use std::io::Seek;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
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
    /// Makes the folder if it does not exist. None if the folder cannot be used, which is said on stderr.
    pub fn open(dir: PathBuf) -> Option<Self> {
        match make_private(&dir) {
            Ok(()) => Some(CodeCache { dir }),
            Err(why) => {
                let dir = dir.display();
                eprintln!("pie: the code cache {dir} is not used: {why}; set PIE_CACHE to a folder of your own");
                None
            }
        }
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

    /// Stores code that was compiled for the user `owner`. If that fails (for example because the disk is full), the
    /// component is compiled again next time.
    pub fn keep(
        &self,
        engine: &Engine,
        component: &[u8],
        owner: &str,
        code: &mut File,
    ) -> std::io::Result<()> {
        let entry = self.entry(engine, component);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&entry)?;
        let unique = format!(
            "{}-{:?}.tmp",
            std::process::id(),
            std::thread::current().id()
        );
        let aside = entry.join(unique.replace(['(', ')'], ""));
        let kept = copy_to(&aside, code)
            .and_then(|sum| std::fs::rename(&aside, entry.join(file_name(&sum, owner))));
        if kept.is_err() {
            let _ = std::fs::remove_file(&aside);
        }
        self.prune(MOST_BYTES);
        kept
    }

    /// Removes abandoned files, and then entries of the users whose entries take most space, until the rest fits. Code
    /// that is running stays mapped. A program whose entry was removed is compiled again.
    fn prune(&self, most_bytes: u64) {
        let mut total = 0;
        let mut holders: HashMap<String, Holder> = HashMap::new();
        let folders = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        for file in folders
            .flat_map(|folder| std::fs::read_dir(folder.path()))
            .flatten()
            .flatten()
        {
            let Ok(meta) = file.metadata() else { continue };
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let path = file.path();
            if path.extension().is_some_and(|e| e == "cwasm") {
                total += meta.len();
                let holder = holders.entry(owner_of(&path)).or_default();
                holder.bytes += meta.len();
                holder.entries.push((used, meta.len(), path));
            } else if used.elapsed().is_ok_and(|age| age > ABANDONED) {
                let _ = std::fs::remove_file(path);
            }
        }
        for holder in holders.values_mut() {
            holder.entries.sort_by(|a, b| b.cmp(a));
        }
        while total > most_bytes {
            let Some(holder) = holders.values_mut().max_by_key(|holder| holder.bytes) else {
                return;
            };
            let Some((_, bytes, path)) = holder.entries.pop() else {
                return; // there is no entry left to remove
            };
            holder.bytes -= bytes;
            total -= bytes;
            if std::fs::remove_file(&path).is_ok() {
                let _ = path.parent().map(std::fs::remove_dir); // fails unless the folder is empty
            }
        }
    }
}

/// The entries of one user.
#[derive(Default)]
struct Holder {
    bytes: u64,
    /// The time of last use, the size and the path of each entry; the least recently used entry is last.
    entries: Vec<(SystemTime, u64, PathBuf)>,
}

fn file_name(checksum: &str, owner: &str) -> String {
    let owner = blake3::hash(owner.as_bytes()).to_hex();
    format!("{checksum}.{}.cwasm", &owner[..16])
}

/// The part of an entry's name that identifies its owner. Empty for the entries of earlier versions, which have no
/// owner.
fn owner_of(path: &Path) -> String {
    let mut parts = name_of(path).split('.').skip(1);
    parts.next().unwrap_or_default().to_string()
}

/// The name of an entry without its extension.
fn name_of(path: &Path) -> &str {
    let stem = path.file_stem().and_then(|s| s.to_str());
    stem.unwrap_or_default()
}

/// Records the time of the last use as the time of modification.
fn mark_used(path: &Path) {
    if let Ok(file) = std::fs::File::options().append(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Copies the code, and returns its checksum.
fn copy_to(path: &Path, code: &mut File) -> std::io::Result<String> {
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    code.rewind()?;
    std::io::copy(code, &mut file)?;
    code.rewind()?;
    checksum(code)
}

fn checksum(file: &File) -> std::io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(hasher.finalize().to_hex()[..32].to_string())
}

fn is_sound(path: &Path) -> bool {
    let named = name_of(path).split('.').next().unwrap_or_default();
    File::open(path).is_ok_and(|file| {
        file.metadata().is_ok_and(|meta| is_private(&meta))
            && checksum(&file).is_ok_and(|sum| sum == named)
    })
}

/// Whether only the user who runs this process can have written it.
fn is_private(meta: &Metadata) -> bool {
    meta.uid() == unsafe { libc::geteuid() } && meta.mode() & 0o022 == 0
}

fn make_private(dir: &Path) -> Result<(), String> {
    let text = |e: std::io::Error| e.to_string();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(text)?;
    let meta = std::fs::metadata(dir).map_err(text)?;
    if meta.uid() != unsafe { libc::geteuid() } {
        return Err(format!("it belongs to another user, number {}", meta.uid()));
    }
    if !is_private(&meta) {
        // A generous umask made it writable for others.
        let private = Permissions::from_mode(meta.mode() & 0o7755);
        std::fs::set_permissions(dir, private).map_err(text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a file of 100 bytes that was last used some time ago.
    fn put(dir: &Path, name: &str, age_s: u64) -> PathBuf {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, [0; 100]).unwrap();
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age_s))
            .unwrap();
        path
    }

    #[test]
    fn prune_removes_the_oldest_entries_and_abandoned_files() {
        let dir = std::env::temp_dir().join(format!("pie-cache-test-{}", std::process::id()));
        let cache = CodeCache::open(dir.clone()).unwrap();
        let put = |name: &str, age_s: u64| put(&dir, name, age_s);
        let old = put("a/old.cwasm", 500);
        let newer = put("b/newer.cwasm", 100);
        let abandoned = put("c/abandoned.tmp", 7200);
        let writing = put("c/writing.tmp", 10);
        cache.prune(150);
        assert!(!old.exists() && !old.parent().unwrap().exists());
        assert!(newer.exists() && writing.exists() && !abandoned.exists());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_user_who_fills_the_cache_pushes_out_their_own_entries() {
        let dir = std::env::temp_dir().join(format!("pie-cache-shares-{}", std::process::id()));
        let cache = CodeCache::open(dir.clone()).unwrap();
        let put_for = |owner: &str, name: &str, age_s| {
            put(&dir, &format!("{name}/{}", file_name(name, owner)), age_s)
        };
        // The neighbour's entries are the oldest. If age alone decided, they would be removed first.
        let neighbours = ["a", "b"].map(|name| put_for("neighbour", name, 1_000));
        let floods: Vec<PathBuf> = (0..10)
            .map(|i| put_for("mallory", &format!("flood{i}"), 500 - i))
            .collect();
        cache.prune(600);
        assert!(neighbours.iter().all(|path| path.exists()));
        let left: Vec<bool> = floods.iter().map(|path| path.exists()).collect();
        assert_eq!(left, [vec![false; 6], vec![true; 4]].concat());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn files_that_others_can_write_do_not_count() {
        let dir = std::env::temp_dir().join(format!("pie-cache-private-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
        CodeCache::open(dir.clone()).unwrap();
        assert!(is_private(&std::fs::metadata(&dir).unwrap()));
        let content = b"code";
        let sum = &blake3::hash(content).to_hex()[..32];
        let path = dir.join(format!("{sum}.cwasm"));
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(is_sound(&path));
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        assert!(!is_sound(&path));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
