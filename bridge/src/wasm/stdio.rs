//! A guest's stdout and stderr. Every write is passed to C++ at once.
use super::runtime::Callbacks;
use super::signal::{waiter, SignalPollable};
use super::weight;
use crate::abi::{GuestPtr, Str};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// How many bytes of stderr an error report quotes.
const TAIL_BYTES: usize = 2048;
/// The largest single write.
const WRITE_BYTES: usize = 64 << 10;

struct Shared {
    guest: usize,
    callbacks: Callbacks,
    left_bytes: u64,
    limit_bytes: u64,
    stderr_tail: VecDeque<u8>,
    /// The lines that the engine itself has written.
    said: Vec<String>,
}

/// Both streams of one instance. They share one limit.
#[derive(Clone)]
pub struct Stdio(Arc<Mutex<Shared>>);

impl Stdio {
    pub fn new(guest: GuestPtr, callbacks: Callbacks, limit_bytes: u64) -> Self {
        Stdio(Arc::new(Mutex::new(Shared {
            guest: guest as usize,
            callbacks,
            left_bytes: limit_bytes,
            limit_bytes,
            stderr_tail: VecDeque::new(),
            said: Vec::new(),
        })))
    }
    pub fn stream(&self, is_stderr: bool) -> Stream {
        Stream {
            stdio: self.clone(),
            is_stderr,
        }
    }
    /// The end of stderr, where a guest usually says why it failed.
    pub fn stderr_tail(&self) -> String {
        let shared = self.0.lock().unwrap();
        let bytes: Vec<u8> = shared.stderr_tail.iter().copied().collect();
        String::from_utf8_lossy(&bytes).trim().to_string()
    }

    /// Writes a line of the engine to stderr, unless the guest's user has seen it.
    pub fn say_once(&self, line: &str) {
        {
            let mut shared = self.0.lock().unwrap();
            if shared.said.iter().any(|said| said == line) {
                return;
            }
            shared.said.push(line.to_string());
        }
        // A guest that has used up its output learns nothing.
        let _ = self.write(true, format!("pie: {line}\n").as_bytes());
    }

    fn room(&self) -> Option<SignalPollable> {
        let shared = self.0.lock().unwrap();
        unsafe { waiter((shared.callbacks.room)(shared.guest as GuestPtr)) }
    }

    fn write(&self, is_stderr: bool, bytes: &[u8]) -> StreamResult<()> {
        let mut shared = self.0.lock().unwrap();
        if bytes.len() as u64 > shared.left_bytes {
            return Err(StreamError::Trap(wasmtime::format_err!(
                "output limit: the inferlet wrote more than {} MiB to stdout and stderr",
                shared.limit_bytes >> 20
            )));
        }
        shared.left_bytes -= bytes.len() as u64;
        if is_stderr {
            shared.stderr_tail.extend(bytes);
            let excess = shared.stderr_tail.len().saturating_sub(TAIL_BYTES);
            shared.stderr_tail.drain(..excess);
        }
        let (guest, on_output) = (shared.guest as GuestPtr, shared.callbacks.on_output);
        drop(shared);
        on_output(guest, is_stderr, Str::bytes(bytes));
        Ok(())
    }
}

#[derive(Clone)]
pub struct Stream {
    stdio: Stdio,
    is_stderr: bool,
}

impl IsTerminal for Stream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink()) // only WASI 0.3 uses it, which is not linked
    }
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Stream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        weight::check_length(&bytes)?;
        self.stdio.write(self.is_stderr, &bytes)
    }
    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }
    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(if self.stdio.room().is_some() {
            0
        } else {
            WRITE_BYTES
        })
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Stream {
    async fn ready(&mut self) {
        while let Some(mut room) = self.stdio.room() {
            room.ready().await;
        }
    }
}
