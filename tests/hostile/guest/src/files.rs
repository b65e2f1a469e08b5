//! Attacks on the folders of a guest.

use inferlet::prelude::*;

/// Makes many empty files.
pub fn litter(files: usize) -> Result<()> {
    for i in 0..files {
        std::fs::File::create(format!("/scratch/{i}")).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Nearly fills a /scratch of 4 MiB that has many files, and then writes one byte again and again. The engine has to
/// measure all the files after every few of these writes.
pub fn write_near_quota(files: usize) -> std::io::Result<String> {
    use std::io::{Seek, Write};
    for i in 0..files {
        std::fs::File::create(format!("/scratch/{i}"))?;
    }
    std::fs::write("/scratch/big", vec![7; (4 << 20) - (64 << 10)])?;
    let mut small = std::fs::File::create("/scratch/small")?;
    loop {
        small.rewind()?;
        small.write_all(b"x")?;
    }
}

/// Makes nested folders, each with a file, by paths relative to one another.
pub fn deep_folders(depth: usize) -> std::io::Result<String> {
    let mut path = std::path::PathBuf::from("/data");
    let name = "d".repeat(200);
    for i in 0..depth {
        path.push(&name);
        std::fs::create_dir(&path)?;
        std::fs::write(path.join("file"), vec![1u8; 1 << 20])?;
        if path.as_os_str().len() > 3_000 {
            // Moves the whole tree one level down, so that its path on the host grows.
            let next = format!("/data/{i}");
            std::fs::create_dir(&next)?;
            std::fs::rename(format!("/data/{name}"), format!("{next}/{name}"))?;
            std::fs::create_dir(format!("/data/{name}"))?;
            std::fs::rename(&next, format!("/data/{name}/{i}"))?;
            path = std::path::PathBuf::from(format!("/data/{name}"));
        }
    }
    Ok("made".into())
}

/// Makes files of a mebibyte in /scratch, and moves or links them to /data. Only writes are counted before they are done.
pub fn move_files(files: usize, link: bool) -> std::io::Result<String> {
    for i in 0..files {
        std::fs::write("/scratch/file", vec![7; 1 << 20])?;
        let to = format!("/data/{i}");
        if link {
            std::fs::hard_link("/scratch/file", to)?;
            std::fs::remove_file("/scratch/file")?;
        } else {
            std::fs::rename("/scratch/file", to)?;
        }
    }
    Ok("moved".into())
}

/// Opens files of a mebibyte for reading, and removes their names. Says how many the host allows.
pub fn hold_nameless(files: usize) -> String {
    let make = |i: usize| -> std::io::Result<std::fs::File> {
        let path = format!("/scratch/{i}");
        std::fs::write(&path, vec![7; 1 << 20])?;
        let file = std::fs::File::open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    };
    for i in 0..files {
        match make(i) {
            Ok(file) => std::mem::forget(file),
            Err(refused) => return format!("{i} files: {refused}"),
        }
    }
    format!("{files} files")
}

/// Waits for the disk again and again.
pub fn sync_files(bytes: usize) -> std::io::Result<String> {
    use std::io::{Seek, Write};
    let mut file = std::fs::File::create("/scratch/file")?;
    loop {
        file.rewind()?;
        file.write_all(&vec![1; bytes])?;
        file.sync_all()?;
    }
}

/// Makes a file long and short again and again.
pub fn truncate_files(bytes: usize) -> std::io::Result<String> {
    let file = std::fs::File::create("/scratch/file")?;
    loop {
        file.set_len(bytes as u64)?;
        file.set_len(0)?;
    }
}
