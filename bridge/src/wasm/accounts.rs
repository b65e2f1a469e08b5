//! The accounts of the folders that guests write to.
//!
//! A write reserves its bytes in the account of its folder and in those of the folders above. An account that has run out of
//! known room measures its folder on a thread for blocking calls, with no lock held. Meanwhile the write waits, and others go
//! on. Between two measurements an account pauses for ten times as long as the first one took, so a guest that runs out of room
//! at every write keeps no thread busy.
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The smallest amount of disk space that a file takes. A file or folder without content counts as much, because a disk can
/// hold only a limited number of them.
const BLOCK_BYTES: u64 = 4096;
const LEVELS: usize = 3; // the folder of a guest, and the two above it

/// How long an account waits after a measurement, in multiples of what the measurement took.
const PAUSE: u32 = 10;

/// A folder of a guest, and how many bytes it may hold.
pub struct Quota {
    pub dir: String,
    pub max_bytes: u64,
    /// The same for the folder that it lies in, and for the one above that. 0: those are not counted.
    pub max_bytes_above: [u64; 2],
}

/// The account of one folder, shared by all processes that can write to it.
pub struct Account {
    pub root: PathBuf,
    /// The folder's path as guests see it.
    name: &'static str,
    max_bytes: u64,
    /// How many levels it lies above the folder of a guest.
    level: usize,
    /// The account of the folder that it lies in. A write needs room in both.
    above: Option<Arc<Account>>,
    books: Mutex<Books>,
    /// The number of the last measurement that has ended. It changes while `books` is locked.
    ended: watch::Sender<u64>,
}

#[derive(Default)]
struct Books {
    /// Bytes that certainly fit without another measurement.
    room: u64,
    /// Bytes reserved by writes that are under way.
    in_flight: u64,
    /// Bytes that the last measurement may have missed: those in flight when it began, and those reserved since.
    missed: u64,
    /// The files that guests have open, also those that they only read, by address. A deleted file takes space until the last
    /// of them is closed.
    open: HashMap<usize, Weak<File>>,
    /// With this many entries, `open` is cleared of the files that are closed.
    most_open: usize,
    /// Measurements that have begun, and that have ended. At most one is under way.
    begun: u64,
    ended: u64,
    /// When the next measurement may begin.
    next: Option<Instant>,
}

static ACCOUNTS: LazyLock<Mutex<HashMap<PathBuf, Weak<Account>>>> = LazyLock::new(Mutex::default);

/// The disk space that a write asks for.
pub struct Wanted {
    bytes: u64,
    /// For each level, the number of the measurement that decides whether there is room: the first that began after this write
    /// ran out of it. An earlier one may have counted what was deleted since. 0: the write has not run out of room.
    deciding: [u64; LEVELS],
}

impl Wanted {
    /// The most disk space that a write of this length can take.
    pub fn of(bytes: usize) -> Wanted {
        Wanted {
            bytes: (bytes as u64 / BLOCK_BYTES + 2) * BLOCK_BYTES,
            deciding: [0; LEVELS],
        }
    }
    /// The space that is counted for a new file, folder or link, including its name.
    pub fn of_entry() -> Wanted {
        Wanted::of(0)
    }
}

/// The disk space of a write that is under way. It is dropped when the write has ended.
pub struct Reserved {
    account: Arc<Account>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.account.settle(self.bytes);
    }
}

/// The answer to a write that has too little room.
enum Step {
    Retry,
    Refuse,
    Pause(Duration),
    /// It waits until the measurement that is under way has ended.
    Await(watch::Receiver<u64>),
    Measure(Measurement, watch::Receiver<u64>),
}

impl Account {
    /// Finds or makes the account of a folder. Processes that share the folder share the account.
    pub fn of(quota: &Quota, name: &'static str) -> io::Result<Arc<Account>> {
        let root = fs::canonicalize(&quota.dir)?;
        let mut accounts = ACCOUNTS.lock().unwrap();
        accounts.retain(|_, account| account.strong_count() > 0);
        let folders: Vec<&Path> = root.ancestors().take(LEVELS).collect();
        let limits = [
            quota.max_bytes,
            quota.max_bytes_above[0],
            quota.max_bytes_above[1],
        ];
        // From the highest folder that is counted down to the guest's own.
        let counted = limits.iter().take_while(|limit| **limit > 0).count().max(1);
        let mut above = None;
        for level in (0..counted.min(folders.len())).rev() {
            let found = accounts.get(folders[level]).and_then(Weak::upgrade);
            let account = found.unwrap_or_else(|| {
                let account = Arc::new(Account {
                    root: folders[level].to_path_buf(),
                    name,
                    max_bytes: limits[level],
                    level,
                    above: above.take(),
                    books: Mutex::default(),
                    ended: watch::Sender::new(0),
                });
                accounts.insert(folders[level].to_path_buf(), Arc::downgrade(&account));
                account
            });
            above = Some(account);
        }
        above.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// Reserves disk space if it certainly fits. It takes no time.
    pub fn take_now(self: &Arc<Account>, wanted: &Wanted) -> Option<Reserved> {
        self.reserve(wanted.bytes).ok()?;
        Some(self.reserved(wanted))
    }

    /// Reserves disk space, and measures the folders if need be. It fails with the account that has too little room. A caller
    /// that has stopped waiting can call it again with the same `wanted`.
    pub async fn take(self: &Arc<Account>, wanted: &mut Wanted) -> Result<Reserved, Arc<Account>> {
        while let Err(short) = self.reserve(wanted.bytes) {
            let step = short.next_step(wanted.bytes, &mut wanted.deciding[short.level]);
            let mut ended = match step {
                Step::Retry => continue,
                Step::Refuse => return Err(short),
                Step::Pause(pause) => {
                    tokio::time::sleep(pause).await;
                    continue;
                }
                Step::Await(ended) => ended,
                Step::Measure(measurement, ended) => {
                    drop(tokio::task::spawn_blocking(move || measurement.run()));
                    ended
                }
            };
            let _ = ended.changed().await; // it cannot fail: the account has the sender
        }
        Ok(self.reserved(wanted))
    }

    fn reserved(self: &Arc<Account>, wanted: &Wanted) -> Reserved {
        Reserved {
            account: self.clone(),
            bytes: wanted.bytes,
        }
    }

    /// Reserves bytes here and in the folders above, or nowhere. It fails with the account that has too little known room.
    /// Books are locked from the lowest folder up.
    fn reserve(self: &Arc<Account>, bytes: u64) -> Result<(), Arc<Account>> {
        let mut books = self.books.lock().unwrap();
        if books.room < bytes {
            return Err(self.clone());
        }
        if let Some(above) = &self.above {
            above.reserve(bytes)?;
        }
        books.room -= bytes;
        books.in_flight += bytes;
        books.missed += bytes;
        Ok(())
    }

    fn settle(&self, bytes: u64) {
        self.books.lock().unwrap().in_flight -= bytes;
        if let Some(above) = &self.above {
            above.settle(bytes);
        }
    }

    fn next_step(self: &Arc<Account>, bytes: u64, deciding: &mut u64) -> Step {
        let mut books = self.books.lock().unwrap();
        if *deciding == 0 {
            *deciding = books.begun + 1;
        }
        if books.room >= bytes {
            return Step::Retry; // a measurement has ended in the meantime
        }
        if books.ended >= *deciding {
            return Step::Refuse;
        }
        let ended = self.ended.subscribe();
        if books.begun > books.ended {
            return Step::Await(ended);
        }
        let now = Instant::now();
        if let Some(next) = books.next.filter(|next| *next > now) {
            return Step::Pause(next - now);
        }
        books.begun += 1;
        books.missed = books.in_flight;
        let measurement = Measurement {
            account: self.clone(),
            found: None,
        };
        Step::Measure(measurement, ended)
    }

    /// Remembers a file that a guest has opened.
    pub fn note(&self, file: &Arc<File>) {
        {
            let mut books = self.books.lock().unwrap();
            if books.open.len() > books.most_open {
                books.open.retain(|_, file| file.strong_count() > 0);
                books.most_open = 64 + 2 * books.open.len();
            }
            let address = Arc::as_ptr(file) as usize; // no other file has it as long as it is known here
            books.open.insert(address, Arc::downgrade(file));
        }
        if let Some(above) = &self.above {
            above.note(file);
        }
    }

    /// The bytes of deleted files that are still open.
    fn deleted(&self) -> u64 {
        let books = self.books.lock().unwrap();
        let open: Vec<Arc<File>> = books.open.values().filter_map(Weak::upgrade).collect();
        drop(books);
        // A file may be open several times.
        let found: HashMap<(u64, u64), u64> = open
            .iter()
            .filter_map(|file| file.metadata().ok())
            .filter(|about| about.nlink() == 0)
            .map(|about| ((about.dev(), about.ino()), about.blocks() * 512))
            .collect();
        found.values().sum()
    }

    /// Says which quota leaves no room for a write.
    pub fn full(&self) -> String {
        let (name, max_mb) = (self.name, self.max_bytes.div_ceil(1 << 20));
        let key = &name[1..];
        match self.level {
            0 => format!(
                "disk quota: {name} is full; it may hold {max_mb} MiB (runtime.fs_{key}_quota_mb)"
            ),
            1 => format!(
                "disk quota: the {name} folders of this user's inferlets are full; together they may hold {max_mb} MiB \
                 (runtime.fs_{key}_total_mb)"
            ),
            _ => format!(
                "disk quota: the {name} folders of all inferlets are full; together they may hold {max_mb} MiB \
                 (runtime.fs_{key}_total_mb)"
            ),
        }
    }
}

/// A measurement that is under way. It ends when this is dropped, whether it was done or not.
struct Measurement {
    account: Arc<Account>,
    /// The bytes of the folder, and when the next measurement may begin.
    found: Option<(u64, Instant)>,
}

impl Measurement {
    fn run(mut self) {
        let begin = Instant::now();
        let depth = MOST_FOLDERS + self.account.level;
        let bytes = measure(&self.account.root, depth).saturating_add(self.account.deleted());
        self.found = Some((bytes, Instant::now() + begin.elapsed() * PAUSE));
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        let mut books = self.account.books.lock().unwrap();
        if let Some((bytes, next)) = self.found {
            let taken = bytes.saturating_add(books.missed);
            books.room = self.account.max_bytes.saturating_sub(taken);
            books.next = Some(next);
        }
        books.ended = books.begun;
        self.account.ended.send_replace(books.ended);
    }
}

/// The depth of nested folders that is measured. A deeper folder counts as exceeding the quota.
const MOST_FOLDERS: usize = 64;

/// The disk space of everything below a folder. Links are not followed. It goes from descriptor to descriptor, because a guest
/// can make paths that are longer than the system takes.
fn measure(dir: &Path, depth_left: usize) -> u64 {
    if depth_left == 0 {
        return u64::MAX;
    }
    let Ok(folder) = File::open(dir) else {
        return 0;
    };
    let Ok(entries) = fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd())) else {
        return 0;
    };
    let mut bytes: u64 = 0;
    for entry in entries.flatten() {
        let Ok(about) = entry.metadata() else {
            continue;
        };
        bytes = bytes.saturating_add((about.blocks() * 512).max(BLOCK_BYTES));
        if about.is_dir() {
            bytes = bytes.saturating_add(measure(&entry.path(), depth_left - 1));
        }
    }
    bytes
}

#[cfg(test)]
pub mod tests;
