//! Attacks by calls of WASI that the standard library does not make.
use std::mem::forget;
use wasi::filesystem::preopens::get_directories;
use wasi::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};
use wasi::http::types::{Fields, Method, OutgoingRequest};

/// Reads from many streams of one file, and takes nothing of what was read.
pub fn hold_streams(streams: usize) -> String {
    std::fs::write("/scratch/file", vec![1u8; 64 << 10]).unwrap();
    let folders = get_directories();
    let (scratch, _) = folders.iter().find(|(_, name)| name == "/scratch").unwrap();
    let file = scratch
        .open_at(
            PathFlags::empty(),
            "file",
            OpenFlags::empty(),
            DescriptorFlags::READ,
        )
        .unwrap();
    for _ in 0..streams {
        let stream = file.read_via_stream(0).unwrap();
        stream.read(64 << 10).unwrap();
        stream.subscribe().block();
        forget(stream);
    }
    format!("{streams} streams")
}

/// Gives many requests a long method.
pub fn hold_methods(bytes: usize) -> String {
    let method = Method::Other("A".repeat(bytes));
    for _ in 0..1_000 {
        let request = OutgoingRequest::new(Fields::new());
        request.set_method(&method).unwrap();
        forget(request);
    }
    "1,000 requests".into()
}

/// Opens one file again and again, and closes nothing. Says at how many the host refuses more.
pub fn hold_files(files: usize) -> String {
    std::fs::write("/scratch/file", "x").unwrap();
    for held in 0..files {
        match std::fs::File::open("/scratch/file") {
            Ok(file) => forget(file),
            Err(refused) => return format!("{held} files: {refused}"),
        }
    }
    format!("{files} files")
}

/// Writes to many streams at once, more than they allow, and waits for none of the writes.
pub fn write_unasked(bytes: usize) -> String {
    let folders = get_directories();
    let (scratch, _) = folders.iter().find(|(_, name)| name == "/scratch").unwrap();
    let flags = DescriptorFlags::WRITE;
    let file = scratch
        .open_at(PathFlags::empty(), "file", OpenFlags::CREATE, flags)
        .unwrap();
    let text = vec![1u8; bytes];
    for _ in 0..500 {
        let stream = file.write_via_stream(0).unwrap();
        stream.write(&text).unwrap();
        forget(stream);
    }
    "wrote".into()
}

/// The same with one long line of output.
pub fn print_unasked(bytes: usize) -> String {
    let stdout = wasi::cli::stdout::get_stdout();
    stdout.write(&vec![b'x'; bytes]).unwrap();
    "printed".into()
}

/// Lets the host read from many streams at the same time, for ever. No read is waited for by itself.
pub fn crowd_reads(streams: usize) -> ! {
    std::fs::write("/scratch/file", vec![1u8; 1 << 20]).unwrap();
    let folders = get_directories();
    let (scratch, _) = folders.iter().find(|(_, name)| name == "/scratch").unwrap();
    let flags = DescriptorFlags::READ;
    let file = scratch
        .open_at(PathFlags::empty(), "file", OpenFlags::empty(), flags)
        .unwrap();
    loop {
        let reading: Vec<_> = (0..streams)
            .map(|_| file.read_via_stream(0).unwrap())
            .collect();
        reading.iter().for_each(|stream| {
            stream.read(64 << 10).unwrap();
        });
        let waiting: Vec<_> = reading.iter().map(|stream| stream.subscribe()).collect();
        waiting.iter().for_each(|pollable| pollable.block());
    }
}

/// Makes many files with long names, and lists them again and again. The host keeps all names of each listing.
pub fn hold_listings(listings: usize) -> String {
    let long = "n".repeat(240);
    for i in 0..60_000 {
        std::fs::File::create(format!("/scratch/{long}{i}")).unwrap();
    }
    let folders = get_directories();
    let (scratch, _) = folders.iter().find(|(_, name)| name == "/scratch").unwrap();
    for _ in 0..listings {
        forget(scratch.read_directory().unwrap());
    }
    format!("{listings} listings")
}

/// Calls with the largest numbers that there are. None of them may end more than the guest, or take long.
pub fn corners() -> Result<String, String> {
    use wasi::clocks::monotonic_clock;
    for moment in [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
        drop(monotonic_clock::subscribe_duration(moment));
        drop(monotonic_clock::subscribe_instant(moment));
    }
    std::fs::write("/scratch/file", "some text").unwrap();
    let folders = get_directories();
    let (scratch, _) = folders.iter().find(|(_, name)| name == "/scratch").unwrap();
    let both = DescriptorFlags::READ | DescriptorFlags::WRITE;
    let file = scratch
        .open_at(PathFlags::empty(), "file", OpenFlags::empty(), both)
        .unwrap();
    for length in [1 << 40, u64::MAX] {
        for at in [0, 1 << 40, u64::MAX] {
            file.read(length, at).ok();
            file.write(&[1], at).ok();
            if let Ok(stream) = file.read_via_stream(at) {
                stream.blocking_read(length).ok();
                stream.blocking_skip(length).ok();
            }
            if let Ok(stream) = file.write_via_stream(at) {
                stream.blocking_write_and_flush(&[1]).ok();
            }
        }
        file.set_size(length).ok();
        file.advise(0, length, wasi::filesystem::types::Advice::WillNeed)
            .ok();
    }
    let out = wasi::cli::stdout::get_stdout();
    if let (Ok(input), Ok(_)) = (file.read_via_stream(0), out.check_write()) {
        out.splice(&input, u64::MAX).ok();
        out.blocking_splice(&input, u64::MAX).ok();
    }
    let (deep, long) = ("x/".repeat(1 << 20), "y".repeat(1 << 20));
    let names = [
        "", ".", "..", "/", "//", "a/../..", "\0", "file/", "file/x", &deep, &long,
    ];
    for name in names {
        scratch.stat_at(PathFlags::SYMLINK_FOLLOW, name).ok();
        scratch.create_directory_at(name).ok();
        scratch.rename_at("file", scratch, name).ok();
        scratch.rename_at(name, scratch, "file").ok();
        scratch.symlink_at(name, "link").ok();
        scratch.readlink_at("link").ok();
        scratch
            .link_at(PathFlags::empty(), "file", scratch, name)
            .ok();
        scratch.unlink_file_at("link").ok();
        scratch.remove_directory_at(name).ok();
    }
    Ok("called".into())
}
