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
