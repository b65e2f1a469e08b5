//! The weight of a guest's WASI objects: the memory that the host keeps for them. They are counted at every tick of a
//! guest that computes, and charged to its user like linear memory.
use std::any::Any;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, StreamError, StreamResult};
use wasmtime_wasi_http::p2::bindings::http::types::{Method, Scheme};
use wasmtime_wasi_http::p2::body::{HostIncomingBody, HostOutgoingBody};
use wasmtime_wasi_http::p2::types::{HostOutgoingRequest, HostOutgoingResponse};
use wasmtime_wasi_http::FieldMap;

/// The memory that one HTTP header takes.
pub const HTTP_FIELDS_BYTES: usize = 32 << 10;

/// A stream keeps what it has read, and what it has not written yet.
const STREAM_BYTES: usize = 64 << 10;
/// Anything else, such as a pollable.
const OBJECT_BYTES: usize = 256;

/// The weight of all objects of a table, without the names that listings of folders hold. It takes some nanoseconds for each of
/// them.
pub fn of(table: &mut ResourceTable) -> usize {
    table.iter_mut().map(|object| of_object(object)).sum()
}

/// Refuses a write that is longer than `check-write` allows. The host keeps what is written until it is done with it, and a guest
/// need not wait for that.
pub fn check_length(write: &[u8]) -> StreamResult<()> {
    let bytes = write.len();
    if bytes <= STREAM_BYTES {
        return Ok(());
    }
    Err(StreamError::Trap(wasmtime::format_err!(
        "memory limit: a write of {bytes} bytes to a stream; check-write allows at most {STREAM_BYTES}"
    )))
}

/// How many files and streams a table has. A stream keeps its file open. Those that are not of files are counted as well,
/// because they look alike.
pub fn open_files(table: &mut ResourceTable) -> usize {
    table
        .iter_mut()
        .map(|object| usize::from(is_open_file(object)))
        .sum()
}

fn is_open_file(object: &dyn Any) -> bool {
    object.is::<Descriptor>() || object.is::<DynInputStream>() || object.is::<DynOutputStream>()
}

fn of_object(object: &dyn Any) -> usize {
    let kept = if object.is::<DynInputStream>()
        || object.is::<DynOutputStream>()
        || object.is::<HostIncomingBody>()
        || object.is::<HostOutgoingBody>()
    {
        STREAM_BYTES
    } else if object.is::<FieldMap>() || object.is::<HostOutgoingResponse>() {
        HTTP_FIELDS_BYTES
    } else if let Some(request) = object.downcast_ref::<HostOutgoingRequest>() {
        of_request(request)
    } else {
        0
    };
    OBJECT_BYTES + kept
}

/// The texts of a request have no limit of their own.
fn of_request(request: &HostOutgoingRequest) -> usize {
    let method = match &request.method {
        Method::Other(text) => text.len(),
        _ => 0,
    };
    let scheme = match &request.scheme {
        Some(Scheme::Other(text)) => text.len(),
        _ => 0,
    };
    let texts = [&request.authority, &request.path_with_query];
    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
    HTTP_FIELDS_BYTES + method + scheme + texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_is_there() {
        let mut table = ResourceTable::new();
        assert_eq!(of(&mut table), 0);
        let object = table.push(1u32).unwrap();
        table.push(FieldMap::new_mutable(10)).unwrap();
        assert_eq!(of(&mut table), 2 * OBJECT_BYTES + HTTP_FIELDS_BYTES);
        table.delete(object).unwrap();
        assert_eq!(of(&mut table), OBJECT_BYTES + HTTP_FIELDS_BYTES);
    }
}
