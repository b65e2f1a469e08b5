//! Quotas of the folders that guests write to, and of the files that they have open.
//!
//! The functions of WASI that write to files are replaced by functions that first reserve the bytes in the folder's account. A
//! write that does not fit is not done: it fails as on a full disk, and the guest's stderr says which quota is full. The
//! functions that open files and make streams are replaced as well, so that these are charged. So are those that make files,
//! folders and links, and those that list folders. Folders with accounts of their own are like different file systems: files
//! are neither moved nor linked from one to the other, because the account of the other one would not notice.
use super::accounts::{Account, Reserved, Wanted};
use super::store::Guest;
use super::turns::leave_lent_thread;
use super::weight;
use bytes::Bytes;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, ErrorCode, HostDescriptor, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{
    DynOutputStream, FsResult, OutputStream, Pollable, StreamError, StreamResult,
};

const WRITE_BYTES: usize = 1 << 20; // the largest single write; longer ones are cut

/// What a name in a listing takes besides its characters.
const LISTED_BYTES: usize = 64;

/// Tells the guest's user something, on the guest's stderr.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// The arguments of `open-at`.
type OpenAt = (
    Resource<Descriptor>,
    PathFlags,
    String,
    OpenFlags,
    DescriptorFlags,
);

/// The arguments of `link-at`.
type LinkAt = (
    Resource<Descriptor>,
    PathFlags,
    String,
    Resource<Descriptor>,
    String,
);

/// The arguments of `rename-at`.
type RenameAt = (Resource<Descriptor>, String, Resource<Descriptor>, String);

/// The account of a file's folder.
struct Counted {
    account: Arc<Account>,
    say: Say,
}

impl Counted {
    async fn take(&self, wanted: &mut Wanted) -> wasmtime::Result<Reserved> {
        take(&self.account, &self.say, wanted).await
    }
}

/// Reserves disk space for a write. It may wait for the folder to be measured.
async fn take(
    account: &Arc<Account>,
    say: &Say,
    wanted: &mut Wanted,
) -> wasmtime::Result<Reserved> {
    account.take(wanted).await.map_err(|short| {
        // Many guests learn only that the write failed: the C library of WASI 0.2 calls all errors of streams EIO.
        let reason = short.full();
        say(&reason);
        let error = io::Error::from_raw_os_error(libc::ENOSPC);
        wasmtime::Error::from(error).context(reason)
    })
}

impl Guest {
    fn counted(&mut self, fd: &Resource<Descriptor>) -> wasmtime::Result<Option<Counted>> {
        let Descriptor::File(file) = self.table.get(fd)? else {
            return Ok(None); // WASI refuses to write to a folder
        };
        let file = file.file.clone();
        let account = self.account_of(&file)?;
        Ok(account.map(|account| Counted {
            account,
            say: self.say.clone(),
        }))
    }

    fn account_of(&self, file: &File) -> wasmtime::Result<Option<Arc<Account>>> {
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let account = self.accounts.iter().find(|a| path.starts_with(&a.root));
        Ok(account.cloned())
    }

    /// Reserves what a new file, folder or link in this folder counts. Files without content would be free otherwise, and a
    /// guest could make more of them than the disk can hold.
    async fn take_entry(
        &mut self,
        folder: &Resource<Descriptor>,
    ) -> wasmtime::Result<Result<Option<Reserved>, ErrorCode>> {
        let Descriptor::Dir(folder) = self.table.get(folder)? else {
            return Ok(Ok(None)); // WASI refuses to make anything in a file
        };
        let folder = folder.dir.clone();
        let Some(account) = self.account_of(&folder)? else {
            return Ok(Ok(None));
        };
        let taken = take(&account, &self.say, &mut Wanted::of_entry()).await;
        Ok(taken.map(Some).map_err(|_| ErrorCode::InsufficientSpace))
    }

    /// Whether what is in one of these folders can be moved or linked to the other one: both count in the same account.
    fn one_account(
        &self,
        one: &Resource<Descriptor>,
        other: &Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        let (Descriptor::Dir(one), Descriptor::Dir(other)) =
            (self.table.get(one)?, self.table.get(other)?)
        else {
            return Ok(true); // WASI refuses
        };
        let (one, other) = (self.account_of(&one.dir)?, self.account_of(&other.dir)?);
        Ok(one.as_ref().map(Arc::as_ptr) == other.as_ref().map(Arc::as_ptr))
    }

    /// Remembers an open file, which takes disk space until it is closed.
    fn note_open(&self, opened: &Resource<Descriptor>) -> wasmtime::Result<()> {
        if let Descriptor::File(file) = self.table.get(opened)? {
            if let Some(account) = self.account_of(&file.file)? {
                account.note(&file.file);
            }
        }
        Ok(())
    }

    /// What the host keeps of the names in a folder while a guest goes through them. The folder is read by a thread for blocking
    /// calls.
    async fn listing_bytes(&mut self, folder: &Resource<Descriptor>) -> wasmtime::Result<usize> {
        let Descriptor::Dir(folder) = self.table.get(folder)? else {
            return Ok(0); // WASI refuses to list a file
        };
        let folder = folder.dir.clone();
        let names = move || -> io::Result<usize> {
            let entries = fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()))?;
            Ok(entries
                .flatten()
                .map(|entry| LISTED_BYTES + entry.file_name().len())
                .sum())
        };
        let counted = tokio::task::spawn_blocking(names).await?;
        Ok(counted.unwrap_or(0)) // WASI reports why it cannot be read
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
        let counted: DynOutputStream = Box::new(CountedStream::new(inner, to));
        Ok((Ok(self.table.push(counted)?),))
    }
}

/// The answer to a guest. A failure that is no error of WASI is a trap.
fn answer<T>(done: FsResult<T>) -> wasmtime::Result<(Result<T, ErrorCode>,)> {
    match done {
        Ok(value) => Ok((Ok(value),)),
        Err(error) => Ok((Err(error.downcast()?),)),
    }
}

/// Replaces the functions of WASI that open files and write to them.
pub fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance("wasi:filesystem/types@0.2.12")?;
    types.func_wrap_async(
        "[method]descriptor.write",
        |mut store, (fd, mut bytes, offset): (Resource<Descriptor>, Vec<u8>, u64)| {
            Box::new(async move {
                leave_lent_thread().await;
                let guest: &mut Guest = store.data_mut();
                let counted = guest.counted(&fd)?;
                bytes.truncate(WRITE_BYTES);
                bytes.shrink_to_fit(); // it is kept until it was written to the disk
                let mut reserved = None;
                if let Some(to) = counted {
                    match to.take(&mut Wanted::of(bytes.len())).await {
                        Ok(space) => reserved = Some(space),
                        Err(_) => return Ok((Err(ErrorCode::InsufficientSpace),)),
                    }
                }
                let done = guest.filesystem().write(fd, bytes, offset).await;
                drop(reserved);
                answer(done)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.open-at",
        |mut store, (fd, at, path, mut how, flags): OpenAt| {
            Box::new(async move {
                let guest: &mut Guest = store.data_mut();
                guest.open_one()?;
                let mut reserved = None;
                let mut full = false;
                if how.contains(OpenFlags::CREATE) {
                    match guest.take_entry(&fd).await? {
                        Ok(space) => reserved = space,
                        Err(_) => full = true,
                    }
                }
                if full && how.contains(OpenFlags::EXCLUSIVE) {
                    return Ok((Err(ErrorCode::InsufficientSpace),));
                }
                if full {
                    how &= !OpenFlags::CREATE; // a file that exists can still be opened
                }
                let done = guest.filesystem().open_at(fd, at, path, how, flags).await;
                drop(reserved);
                match answer(done)? {
                    (Err(ErrorCode::NoEntry),) if full => Ok((Err(ErrorCode::InsufficientSpace),)),
                    (Ok(opened),) => {
                        guest.note_open(&opened)?;
                        Ok((Ok(opened),))
                    }
                    done => Ok(done),
                }
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.create-directory-at",
        |mut store, (fd, path): (Resource<Descriptor>, String)| {
            Box::new(async move {
                let guest: &mut Guest = store.data_mut();
                let reserved = match guest.take_entry(&fd).await? {
                    Ok(space) => space,
                    Err(full) => return Ok((Err(full),)),
                };
                let done = guest.filesystem().create_directory_at(fd, path).await;
                drop(reserved);
                answer(done)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.symlink-at",
        |mut store, (fd, to, path): (Resource<Descriptor>, String, String)| {
            Box::new(async move {
                let guest: &mut Guest = store.data_mut();
                let reserved = match guest.take_entry(&fd).await? {
                    Ok(space) => space,
                    Err(full) => return Ok((Err(full),)),
                };
                let done = guest.filesystem().symlink_at(fd, to, path).await;
                drop(reserved);
                answer(done)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.link-at",
        |mut store, (fd, at, path, to, new): LinkAt| {
            Box::new(async move {
                let guest: &mut Guest = store.data_mut();
                if !guest.one_account(&fd, &to)? {
                    return Ok((Err(ErrorCode::CrossDevice),));
                }
                let reserved = match guest.take_entry(&to).await? {
                    Ok(space) => space,
                    Err(full) => return Ok((Err(full),)),
                };
                let done = guest.filesystem().link_at(fd, at, path, to, new).await;
                drop(reserved);
                answer(done)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.rename-at",
        |mut store, (fd, path, to, new): RenameAt| {
            Box::new(async move {
                let guest: &mut Guest = store.data_mut();
                if !guest.one_account(&fd, &to)? {
                    return Ok((Err(ErrorCode::CrossDevice),));
                }
                answer(guest.filesystem().rename_at(fd, path, to, new).await)
            })
        },
    )?;
    types.func_wrap_async(
        "[method]descriptor.read-directory",
        |mut store, (fd,): (Resource<Descriptor>,)| {
            Box::new(async move {
                let guest: &mut Guest = store.data_mut();
                let bytes = guest.listing_bytes(&fd).await?;
                let done = answer(guest.filesystem().read_directory(fd).await)?;
                if let (Ok(listing),) = &done {
                    guest.count_listing(listing, bytes)?;
                }
                Ok(done)
            })
        },
    )?;
    types.func_wrap(
        "[method]descriptor.read-via-stream",
        |mut store, (fd, offset): (Resource<Descriptor>, u64)| {
            let guest: &mut Guest = store.data_mut();
            guest.open_one()?;
            answer(guest.filesystem().read_via_stream(fd, offset))
        },
    )?;
    types.func_wrap(
        "[method]descriptor.write-via-stream",
        |mut store, (fd, offset): (Resource<Descriptor>, u64)| {
            let guest: &mut Guest = store.data_mut();
            guest.open_one()?;
            let same = Resource::new_borrow(fd.rep());
            let made = guest.filesystem().write_via_stream(fd, offset);
            guest.count_stream(&same, made)
        },
    )?;
    types.func_wrap(
        "[method]descriptor.append-via-stream",
        |mut store, (fd,): (Resource<Descriptor>,)| {
            let guest: &mut Guest = store.data_mut();
            guest.open_one()?;
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
    /// The disk space of the write that is under way.
    reserved: Option<Reserved>,
    /// A write that begins when there is room. A function that must not wait cannot find that out.
    waiting: Option<(Bytes, Wanted)>,
    /// Why the last write failed. The next call reports it. The stream stays open all the same: languages keep one stream for
    /// each open file, and a program that has freed some space may write again.
    failed: Option<StreamError>,
}

impl CountedStream {
    fn new(inner: DynOutputStream, to: Counted) -> CountedStream {
        CountedStream {
            inner,
            to,
            reserved: None,
            waiting: None,
            failed: None,
        }
    }

    fn report(&mut self) -> StreamResult<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Begins the write that waits for room.
    async fn begin_waiting(&mut self) {
        let Some((_, wanted)) = &mut self.waiting else {
            return;
        };
        let space = self.to.take(wanted).await;
        let Some((bytes, _)) = self.waiting.take() else {
            return;
        };
        let begun = match space {
            Ok(space) => {
                self.reserved = Some(space);
                self.inner.write(bytes)
            }
            Err(full) => Err(StreamError::LastOperationFailed(full)),
        };
        self.failed = begun.err();
    }
}

#[wasmtime_wasi::async_trait]
impl OutputStream for CountedStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        weight::check_length(&bytes)?;
        self.report()?;
        if self.waiting.is_some() {
            return Err(StreamError::trap(
                "write not permitted: check_write not called first",
            ));
        }
        let wanted = Wanted::of(bytes.len());
        self.reserved = self.to.account.take_now(&wanted);
        if self.reserved.is_none() {
            self.waiting = Some((bytes, wanted));
            return Ok(());
        }
        self.inner.write(bytes)
    }
    async fn blocking_write_and_flush(&mut self, bytes: Bytes) -> StreamResult<()> {
        leave_lent_thread().await;
        self.ready().await;
        self.report()?;
        let space = self.to.take(&mut Wanted::of(bytes.len())).await;
        self.reserved = Some(space.map_err(StreamError::LastOperationFailed)?);
        let done = self.inner.blocking_write_and_flush(bytes).await;
        self.reserved = None;
        done
    }
    fn flush(&mut self) -> StreamResult<()> {
        self.report()?;
        self.inner.flush()
    }
    fn check_write(&mut self) -> StreamResult<usize> {
        self.report()?;
        if self.waiting.is_some() {
            return Ok(0);
        }
        let room = self.inner.check_write()?;
        if room > 0 {
            self.reserved = None; // the previous write has ended
        }
        Ok(room.min(WRITE_BYTES))
    }
    async fn cancel(&mut self) {
        if self.waiting.is_some() {
            self.ready().await; // until the accepted bytes are written
        }
        self.inner.cancel().await;
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for CountedStream {
    async fn ready(&mut self) {
        self.inner.ready().await;
        self.reserved = None; // the previous write has ended
        if self.waiting.is_some() {
            self.begin_waiting().await;
            self.inner.ready().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::accounts::tests::{executor, Folder};
    use super::*;
    use std::sync::Mutex;

    /// A stream that keeps the bytes written to it, as a file would.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<Bytes>>>);

    impl OutputStream for Kept {
        fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
            self.0.lock().unwrap().push(bytes);
            Ok(())
        }
        fn flush(&mut self) -> StreamResult<()> {
            Ok(())
        }
        fn check_write(&mut self) -> StreamResult<usize> {
            Ok(1 << 16)
        }
    }

    #[wasmtime_wasi::async_trait]
    impl Pollable for Kept {
        async fn ready(&mut self) {}
    }

    /// A stream to a file of the folder, the bytes written to it, and the text that the guest's user was told.
    fn stream_to(folder: &Folder) -> (CountedStream, Kept, Arc<Mutex<Vec<String>>>) {
        let (kept, told) = (Kept::default(), Arc::new(Mutex::new(Vec::new())));
        let tell = told.clone();
        let to = Counted {
            account: folder.account.clone(),
            say: Arc::new(move |line: &str| tell.lock().unwrap().push(line.to_string())),
        };
        (CountedStream::new(Box::new(kept.clone()), to), kept, told)
    }

    #[test]
    fn a_write_that_must_not_wait_leaves_the_measuring_to_ready() {
        let folder = Folder::new("stream", 1 << 20);
        let (mut stream, kept, _) = stream_to(&folder);
        assert!(stream.check_write().unwrap() > 0);
        stream.write(Bytes::from_static(b"x")).unwrap();
        assert_eq!(
            stream.check_write().unwrap(),
            0,
            "nothing is known of the folder"
        );
        assert!(kept.0.lock().unwrap().is_empty());
        assert!(matches!(
            stream.write(Bytes::from_static(b"y")),
            Err(StreamError::Trap(_))
        ));
        executor().block_on(stream.ready());
        assert!(stream.check_write().unwrap() > 0);
        assert_eq!(*kept.0.lock().unwrap(), [Bytes::from_static(b"x")]);
        stream.write(Bytes::from_static(b"y")).unwrap();
        assert_eq!(kept.0.lock().unwrap().len(), 2, "now there is known room");
    }

    #[test]
    fn what_was_accepted_is_written_before_the_stream_is_dropped() {
        let folder = Folder::new("dropped", 1 << 20);
        let (mut stream, kept, _) = stream_to(&folder);
        stream.write(Bytes::from_static(b"x")).unwrap();
        executor().block_on(stream.cancel());
        assert_eq!(kept.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_write_beyond_the_quota_is_an_error_after_which_the_stream_goes_on() {
        let folder = Folder::new("full", 1 << 20);
        std::fs::write(folder.path("big"), vec![7; 1 << 20]).unwrap();
        let (mut stream, kept, told) = stream_to(&folder);
        let executor = executor();
        let is_full = |error: StreamError| match error {
            StreamError::LastOperationFailed(e) => {
                let code = e.downcast_ref::<io::Error>().map(ErrorCode::from);
                matches!(code, Some(ErrorCode::InsufficientSpace))
            }
            _ => false,
        };
        stream.write(Bytes::from_static(b"x")).unwrap();
        executor.block_on(stream.ready());
        assert!(is_full(stream.check_write().unwrap_err()));
        let blocking = stream.blocking_write_and_flush(Bytes::from_static(b"y"));
        assert!(is_full(executor.block_on(blocking).unwrap_err()));
        assert!(kept.0.lock().unwrap().is_empty());
        let told = told.lock().unwrap().clone();
        assert!(
            told[0].starts_with("disk quota: /data is full; it may hold 1 MiB"),
            "{told:?}"
        );
        std::fs::remove_file(folder.path("big")).unwrap();
        assert!(stream.check_write().unwrap() > 0);
        let blocking = stream.blocking_write_and_flush(Bytes::from_static(b"z"));
        executor.block_on(blocking).unwrap();
        assert_eq!(*kept.0.lock().unwrap(), [Bytes::from_static(b"z")]);
    }
}
