//! Bodies: bytes in, bytes out, without blocking other tasks of the inferlet.

use super::bindings::wasi::io::streams::{InputStream, OutputStream, StreamError};
use super::errors::of_stream;
use crate::executor::ready;
use crate::Result;

const PIECE_BYTES: u64 = 64 << 10;

/// The next bytes of a body. None at its end.
pub(super) async fn read(stream: &InputStream) -> Result<Option<Vec<u8>>> {
    loop {
        match stream.read(PIECE_BYTES) {
            Ok(bytes) if bytes.is_empty() => ready(stream.subscribe()).await,
            Ok(bytes) => return Ok(Some(bytes)),
            Err(StreamError::Closed) => return Ok(None),
            Err(StreamError::LastOperationFailed(error)) => return Err(of_stream(&error)),
        }
    }
}

pub(super) async fn read_all(stream: &InputStream, limit: usize) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    while let Some(bytes) = read(stream).await? {
        if all.len() + bytes.len() > limit {
            return Err(format!("the body has more than {limit} bytes"));
        }
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

pub(super) async fn write(stream: &OutputStream, mut bytes: &[u8]) -> Result<()> {
    let failed = |error: StreamError| match error {
        StreamError::Closed => "the other side has closed the connection".to_string(),
        StreamError::LastOperationFailed(error) => of_stream(&error),
    };
    while !bytes.is_empty() {
        let room = stream.check_write().map_err(failed)?;
        if room == 0 {
            ready(stream.subscribe()).await;
            continue;
        }
        let (now, later) = bytes.split_at(bytes.len().min(room as usize));
        stream.write(now).map_err(failed)?;
        bytes = later;
    }
    Ok(())
}
