//! Removes a folder that a guest has filled.
//!
//! A guest can nest folders more deeply than a function that calls itself can follow: the stack of its thread would overflow,
//! and that ends the process. So the folders are visited in a loop. A few of them are open at a time, and the others are found
//! again by `..`. No link is followed.
use crate::abi::{guarded, Str};
use std::ffi::{CStr, CString, OsStr};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The folders that are open at the same time.
const MOST_OPEN: usize = 16;

/// How often a folder may get another file while it is removed. The last call of a guest that was cancelled may still run.
const MOST_ADDITIONS: usize = 64;

/// A folder that is open and read.
struct Folder(*mut libc::DIR);

impl Folder {
    fn open(at: RawFd, name: &CStr) -> Result<Folder> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let fd = check(unsafe { libc::openat(at, name.as_ptr(), flags) })?;
        let folder = unsafe { libc::fdopendir(fd) };
        if folder.is_null() {
            let error = Error::last_os_error();
            unsafe { libc::close(fd) };
            return Err(error);
        }
        Ok(Folder(folder))
    }
    fn fd(&self) -> RawFd {
        unsafe { libc::dirfd(self.0) }
    }
    /// The device and the inode.
    fn id(&self) -> Result<(u64, u64)> {
        let mut about: libc::stat = unsafe { std::mem::zeroed() };
        check(unsafe { libc::fstat(self.fd(), &mut about) })?;
        Ok((about.st_dev, about.st_ino))
    }
    /// The next entry that is still there.
    fn next(&self) -> Result<Option<CString>> {
        loop {
            unsafe { *libc::__errno_location() = 0 };
            let entry = unsafe { libc::readdir(self.0) };
            if entry.is_null() {
                let error = Error::last_os_error();
                let at_end = error.raw_os_error() == Some(0);
                return if at_end { Ok(None) } else { Err(error) };
            }
            let name = unsafe { CStr::from_ptr((*entry).d_name.as_ptr()) };
            if name != c"." && name != c".." {
                return Ok(Some(name.to_owned()));
            }
        }
    }
    fn remove(&self, name: &CStr, flags: i32) -> Result<()> {
        check(unsafe { libc::unlinkat(self.fd(), name.as_ptr(), flags) }).map(drop)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        unsafe { libc::closedir(self.0) };
    }
}

fn check(returned: i32) -> Result<i32> {
    if returned < 0 {
        return Err(Error::last_os_error());
    }
    Ok(returned)
}

/// A folder between the first one and the one that is emptied.
struct Level {
    name: CString,
    id: (u64, u64),
    /// None while too many others are open.
    folder: Option<Folder>,
}

impl Level {
    fn open(at: RawFd, name: CString) -> Result<Level> {
        let folder = Folder::open(at, &name)?;
        Ok(Level {
            name,
            id: folder.id()?,
            folder: Some(folder),
        })
    }
}

/// Removes a folder and everything in it. The stack and the descriptors that this takes do not depend on what is in it.
pub fn remove_tree(path: &Path) -> Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    for _ in 0..MOST_ADDITIONS {
        empty(Level::open(libc::AT_FDCWD, name.clone())?)?;
        match check(unsafe { libc::rmdir(name.as_ptr()) }) {
            Err(e) if e.kind() == ErrorKind::DirectoryNotEmpty => continue,
            done => return done.map(drop),
        }
    }
    Err(grows())
}

fn grows() -> Error {
    Error::other("the folder gets new files while it is removed")
}

fn empty(first: Level) -> Result<()> {
    let mut levels = vec![first];
    let mut additions = 0;
    while let Some(level) = levels.last() {
        let Some(folder) = &level.folder else {
            return Err(Error::other("the innermost folder is not open")); // it always is
        };
        if let Some(name) = folder.next()? {
            if let Some(below) = remove_entry(folder, name)? {
                levels.push(below);
                let open_above = levels.len().checked_sub(MOST_OPEN + 1);
                if let Some(above) = open_above {
                    levels[above].folder = None;
                }
            }
            continue;
        }
        let Some(done) = levels.pop() else { break };
        let Some(above) = levels.last_mut() else {
            break; // the caller removes the first folder
        };
        if let (None, Some(done)) = (&above.folder, &done.folder) {
            let folder = Folder::open(done.fd(), c"..")?;
            if folder.id()? != above.id {
                return Err(Error::other("a folder was moved while it was removed"));
            }
            above.folder = Some(folder);
        }
        drop(done.folder);
        if let Some(above) = &above.folder {
            match above.remove(&done.name, libc::AT_REMOVEDIR) {
                Err(e) if e.kind() == ErrorKind::DirectoryNotEmpty => {
                    additions += 1;
                    if additions > MOST_ADDITIONS {
                        return Err(grows());
                    }
                }
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => (),
            }
        }
    }
    Ok(())
}

/// Removes a file or an empty folder. A folder with something in it is returned.
fn remove_entry(folder: &Folder, name: CString) -> Result<Option<Level>> {
    let mut removed = folder.remove(&name, 0);
    if matches!(&removed, Err(e) if e.kind() == ErrorKind::IsADirectory) {
        removed = folder.remove(&name, libc::AT_REMOVEDIR);
    }
    match removed {
        Err(e) if e.kind() == ErrorKind::DirectoryNotEmpty => {
            Level::open(folder.fd(), name).map(Some)
        }
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(None),
    }
}

/// Removes a folder that guests have filled, however deep it is. Returns whether it is gone.
#[no_mangle]
pub unsafe extern "C" fn pie_remove_tree(path: Str) -> bool {
    guarded(false, || {
        let path = Path::new(OsStr::from_bytes(path.as_bytes()));
        let removed = remove_tree(path);
        !matches!(removed, Err(e) if e.kind() != ErrorKind::NotFound)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let name = format!("pie-removal-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir(&dir).unwrap();
        dir
    }

    /// Makes `depth` folders, each in the one before, with a file and an empty folder beside it.
    fn nest(dir: &Path, depth: usize) {
        let top = CString::new(dir.as_os_str().as_bytes()).unwrap();
        let mut at = Folder::open(libc::AT_FDCWD, &top).unwrap();
        for _ in 0..depth {
            unsafe {
                for name in [c"a", c"below", c"z"] {
                    check(libc::mkdirat(at.fd(), name.as_ptr(), 0o700)).unwrap();
                }
                check(libc::symlinkat(c"/".as_ptr(), at.fd(), c"link".as_ptr())).unwrap();
            }
            at = Folder::open(at.fd(), c"below").unwrap();
        }
    }

    #[test]
    fn a_deep_tree_needs_little_stack() {
        let dir = folder("deep");
        nest(&dir, 20_000);
        let own = dir.clone();
        let remover = std::thread::Builder::new().stack_size(64 << 10);
        let removed = remover.spawn(move || remove_tree(&own)).unwrap().join();
        removed.unwrap().unwrap();
        assert!(!dir.exists());
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let (dir, other) = (folder("links"), folder("other"));
        fs::write(other.join("kept"), "x").unwrap();
        fs::create_dir_all(dir.join("a/b")).unwrap();
        symlink(&other, dir.join("a/b/folder")).unwrap();
        symlink(other.join("kept"), dir.join("a/file")).unwrap();
        remove_tree(&dir).unwrap();
        assert!(!dir.exists() && other.join("kept").exists());
        symlink(&other, &dir).unwrap();
        assert!(remove_tree(&dir).is_err(), "it is a link itself");
        assert!(other.join("kept").exists());
        fs::remove_file(&dir).unwrap();
        remove_tree(&other).unwrap();
    }

    #[test]
    fn a_wide_tree_is_removed() {
        let dir = folder("wide");
        for i in 0..2 * MOST_OPEN {
            let below = dir.join(format!("{i}"));
            fs::create_dir(&below).unwrap();
            nest(&below, i);
        }
        remove_tree(&dir).unwrap();
        assert!(!dir.exists());
    }
}
