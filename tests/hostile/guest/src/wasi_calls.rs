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
