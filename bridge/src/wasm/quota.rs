//! Quotas of the folders that guests write to.
//!
//! The functions of WASI that write to files are replaced by functions that first reserve the bytes in the folder's account. A
//! write that does not fit is not done, and the guest traps. An account that has run out of known room measures the folder.
use super::store::Guest;
use super::turns::leave_lent_thread;
use bytes::Bytes;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, Weak};
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::{ErrorCode, HostDescriptor};
use wasmtime_wasi::p2::{
    DynOutputStream, FsResult, OutputStream, Pollable, StreamError, StreamResult,
};

const BLOCK_BYTES: u64 = 4096; // the smallest amount of disk space that a file takes
const WRITE_BYTES: usize = 1 << 20; // the largest single write; longer ones are cut

/// A folder of a guest, and how many bytes it may hold.
pub struct Quota {
    pub dir: String,
    pub max_bytes: u64,
    /// The same for the folder that it lies in, and for the one above that. 0: those are not counted.
    pub max_bytes_above: [u64; 2],
}

/// The account of one folder, shared by all processes that can write to it.
pub struct Account {
    root: PathBuf,
    /// The folder's path as guests see it.
    name: &'static str,
    max_bytes: u64,
    /// How many levels it lies above the folder of a guest.
    level: u32,
    /// The account of the folder that it lies in. A write needs room in both.
    above: Option<Arc<Account>>,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    /// Bytes that certainly fit without another measurement.
    room: u64,
    /// Bytes reserved by writes that are under way. A measurement may miss them.
    in_flight: u64,
    /// The open files that were written, by device and inode. A deleted file takes space until it is closed.
    written: HashMap<(u64, u64), Weak<File>>,
}

static ACCOUNTS: LazyLock<Mutex<HashMap<PathBuf, Weak<Account>>>> = LazyLock::new(Mutex::default);

impl Account {
    /// Finds or makes the account of a folder. Processes that share the folder share the account.
    pub fn of(quota: &Quota, name: &'static str) -> io::Result<Arc<Account>> {
        let root = fs::canonicalize(&quota.dir)?;
        let mut accounts = ACCOUNTS.lock().unwrap();
        accounts.retain(|_, account| account.strong_count() > 0);
        let folders: Vec<&Path> = root.ancestors().take(3).collect();
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
                    level: level as u32,
                    above: above.take(),
                    books: Mutex::default(),
                });
                accounts.insert(folders[level].to_path_buf(), Arc::downgrade(&account));
                account
            });
            above = Some(account);
        }
        above.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// Reserves the most disk space that a write of `bytes` bytes can take. `settle` ends the reservation.
    fn take(&self, file: &Arc<File>, bytes: usize) -> wasmtime::Result<u64> {
        let most = (bytes as u64 / BLOCK_BYTES + 2) * BLOCK_BYTES;
        self.reserve(file, most)?;
        Ok(most)
    }

    fn reserve(&self, file: &Arc<File>, most: u64) -> wasmtime::Result<()> {
        if let Some(above) = &self.above {
            above.reserve(file, most)?;
        }
        let reserved = self.reserve_here(file, most);
        if let (Err(_), Some(above)) = (&reserved, &self.above) {
            above.settle(most);
        }
        reserved
    }

    fn reserve_here(&self, file: &Arc<File>, most: u64) -> wasmtime::Result<()> {
        let about = file.metadata()?;
        let mut books = self.books.lock().unwrap();
        let known = books.written.entry((about.dev(), about.ino())).or_default();
        if known.strong_count() == 0 {
            *known = Arc::downgrade(file);
        }
        if books.room < most {
            let taken = measure(&self.root, MOST_FOLDERS + self.level)
                .saturating_add(books.deleted())
                .saturating_add(books.in_flight);
            books.room = self.max_bytes.saturating_sub(taken);
        }
        if books.room < most {
            return Err(self.full());
        }
        books.room -= most;
        books.in_flight += most;
        Ok(())
    }

    fn full(&self) -> wasmtime::Error {
        let (name, max_mb) = (self.name, self.max_bytes.div_ceil(1 << 20));
        let key = &name[1..];
        match self.level {
            0 => wasmtime::format_err!(
                "disk quota: {name} is full; it may hold {max_mb} MiB (runtime.fs_{key}_quota_mb)"
            ),
            1 => wasmtime::format_err!(
                "disk quota: the {name} folders of this user's inferlets are full; together they may hold {max_mb} MiB \
                 (runtime.fs_{key}_total_mb)"
            ),
            _ => wasmtime::format_err!(
                "disk quota: the {name} folders of all inferlets are full; together they may hold {max_mb} MiB \
                 (runtime.fs_{key}_total_mb)"
            ),
        }
    }

    fn settle(&self, taken: u64) {
        self.books.lock().unwrap().in_flight -= taken;
        if let Some(above) = &self.above {
            above.settle(taken);
        }
    }
}

impl Books {
    /// The bytes of deleted files that are still open.
    fn deleted(&mut self) -> u64 {
        let mut bytes = 0;
        self.written.retain(|_, file| {
            let about = file.upgrade().and_then(|file| file.metadata().ok());
            if let Some(about) = about.as_ref().filter(|about| about.nlink() == 0) {
                bytes += about.blocks() * 512;
            }
            about.is_some()
        });
        bytes
    }
}

/// Folders within folders that are measured. What is deeper counts as too much.
const MOST_FOLDERS: u32 = 64;

/// The disk space of everything below a folder. Links are not followed. It goes from descriptor to descriptor, because a guest
/// can make paths that are longer than the system takes.
fn measure(dir: &Path, depth_left: u32) -> u64 {
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
        bytes = bytes.saturating_add(about.blocks() * 512);
        if about.is_dir() {
            bytes = bytes.saturating_add(measure(&entry.path(), depth_left - 1));
        }
    }
    bytes
}

/// A file and the account of its folder.
#[derive(Clone)]
struct Counted {
    file: Arc<File>,
    account: Arc<Account>,
}

impl Guest {
    fn counted(&mut self, fd: &Resource<Descriptor>) -> wasmtime::Result<Option<Counted>> {
        let Descriptor::File(file) = self.table.get(fd)? else {
            return Ok(None); // WASI refuses to write to a folder
        };
        let file = file.file.clone();
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let account = self.accounts.iter().find(|a| path.starts_with(&a.root));
        Ok(account.cloned().map(|account| Counted { file, account }))
    }

    fn count_stream(
        &mut self,
        fd: &Resource<Descriptor>,
        made: FsResult<Resource<DynOutputStream>>,
    ) -> wasmtime::Result<(Result<Resource<DynOutputStream>, ErrorCode>,)> {
        let stream = match made {
            Ok(stream) => stream,
            Err(error) => return Ok((Err(error.downcast()?),)),
        };
        let Some(to) = self.counted(fd)? else {
            return Ok((Ok(stream),));
        };
        let inner = self.table.delete(stream)?;
        let counted: DynOutputStream = Box::new(CountedStream {
            inner,
            to,
            taken: 0,
        });
        Ok((Ok(self.table.push(counted)?),))
    }
}

/// Replaces the functions of WASI that write to files.
pub fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance("wasi:filesystem/types@0.2.12")?;
    types.func_wrap_async(
        "[method]descriptor.write",
        |mut store, (fd, mut bytes, offset): (Resource<Descriptor>, Vec<u8>, u64)| {
            Box::new(async move {
                leave_lent_thread().await; // measuring a folder can take long
                let guest: &mut Guest = store.data_mut();
                let counted = guest.counted(&fd)?;
                bytes.truncate(WRITE_BYTES);
                bytes.shrink_to_fit(); // it is kept until the disk has it
                let taken = match &counted {
                    Some(to) => to.account.take(&to.file, bytes.len())?,
                    None => 0,
                };
                let done = guest.filesystem().write(fd, bytes, offset).await;
                if let Some(to) = counted {
                    to.account.settle(taken);
                }
                match done {
                    Ok(written) => Ok((Ok(written),)),
                    Err(error) => Ok((Err(error.downcast()?),)),
                }
            })
        },
    )?;
    types.func_wrap(
        "[method]descriptor.write-via-stream",
        |mut store, (fd, offset): (Resource<Descriptor>, u64)| {
            let guest: &mut Guest = store.data_mut();
            let same = Resource::new_borrow(fd.rep());
            let made = guest.filesystem().write_via_stream(fd, offset);
            guest.count_stream(&same, made)
        },
    )?;
    types.func_wrap(
        "[method]descriptor.append-via-stream",
        |mut store, (fd,): (Resource<Descriptor>,)| {
            let guest: &mut Guest = store.data_mut();
            let same = Resource::new_borrow(fd.rep());
            let made = guest.filesystem().append_via_stream(fd);
            guest.count_stream(&same, made)
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// A stream to a file. At most one of its writes is under way.
struct CountedStream {
    inner: DynOutputStream,
    to: Counted,
    taken: u64,
}

impl CountedStream {
    fn take(&mut self, bytes: usize) -> StreamResult<()> {
        self.settle();
        let taken = self.to.account.take(&self.to.file, bytes);
        self.taken = taken.map_err(StreamError::Trap)?;
        Ok(())
    }
    fn settle(&mut self) {
        self.to.account.settle(std::mem::take(&mut self.taken));
    }
}

impl Drop for CountedStream {
    fn drop(&mut self) {
        self.settle();
    }
}

#[wasmtime_wasi::async_trait]
impl OutputStream for CountedStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(bytes.len())?;
        self.inner.write(bytes)
    }
    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        leave_lent_thread().await;
        self.take(bytes.len())?;
        let done = self.inner.blocking_write_and_flush(bytes).await;
        self.settle();
        done
    }
    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }
    fn check_write(&mut self) -> StreamResult<usize> {
        let room = self.inner.check_write()?;
        if room > 0 {
            self.settle(); // the previous write has ended
        }
        Ok(room.min(WRITE_BYTES))
    }
    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for CountedStream {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}
