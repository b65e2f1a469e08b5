//! The events of one process that were received and not taken yet.

use crate::error::{Error, Result};
use crate::event::ProcessEvent;
use crate::flow::Flow;
use crate::limits::MAX_INCOMING_BYTES;
use crate::wire::Frame;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

pub struct Mailbox {
    pub id: String,
    flow: Arc<Flow>,
    inside: Mutex<Inside>,
    arrived: Notify,
}

#[derive(Default)]
struct Inside {
    events: VecDeque<Result<ProcessEvent>>,
    seen: Option<u64>,
    file: Option<IncomingFile>,
    end: Option<ProcessEvent>,
    last_taken: bool,
    discards: bool,
    fault: Option<Error>,
}

struct IncomingFile {
    hash: String,
    total: u32,
    next: u32,
    data: Vec<u8>,
}

impl Mailbox {
    pub fn new(id: &str, seen: Option<u64>, flow: Arc<Flow>) -> Arc<Self> {
        let inside = Mutex::new(Inside { seen, ..Inside::default() });
        Arc::new(Mailbox { id: id.into(), flow, inside, arrived: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("the lock is not poisoned")
    }

    pub fn seen(&self) -> Option<u64> {
        self.lock().seen
    }

    pub fn end(&self) -> Option<ProcessEvent> {
        self.lock().end.clone()
    }

    pub fn last_taken(&self) -> bool {
        self.lock().last_taken
    }

    pub async fn next(&self) -> Result<ProcessEvent> {
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable(); // events from here on are not missed
            if let Some(taken) = self.try_next() {
                return taken;
            }
            let _waiting = self.flow.waiting();
            arrived.await;
        }
    }

    fn try_next(&self) -> Option<Result<ProcessEvent>> {
        let mut inside = self.lock();
        if let Some(taken) = inside.events.pop_front() {
            if let Ok(event) = &taken {
                inside.last_taken = event.is_last();
                self.flow.took(event.size());
            }
            return Some(taken);
        }
        if inside.last_taken || (inside.discards && inside.end.is_some()) {
            return Some(Err(Error::Ended(format!("process {} has ended", self.id))));
        }
        inside.fault.clone().map(Err)
    }

    pub fn discard(&self) {
        let mut inside = self.lock();
        inside.discards = true;
        for event in inside.events.drain(..).flatten() {
            self.flow.took(event.size());
        }
    }

    pub fn lost(&self, fault: Error) {
        let mut inside = self.lock();
        inside.fault = Some(fault);
        inside.file = None;
        drop(inside);
        self.arrived.notify_waiters();
    }

    pub fn back(&self) {
        self.lock().fault = None;
    }

    /// Takes a frame of this process. Returns true if it was the last.
    pub fn take(&self, frame: Frame) -> Result<bool> {
        let mut inside = self.lock();
        let number = frame.seq;
        if let (Some(number), Some(seen)) = (number, inside.seen) {
            if number <= seen {
                return Ok(false); // it arrived before the connection broke
            }
        }
        let said = if frame.kind == "file" {
            match inside.take_chunk(frame) {
                Some(said) => said,
                None => return Ok(false),
            }
        } else {
            Ok(to_event(frame)?)
        };
        inside.seen = number.or(inside.seen);
        let is_last = said.as_ref().is_ok_and(ProcessEvent::is_last);
        if is_last {
            inside.end = said.as_ref().ok().cloned();
        }
        if !inside.discards {
            let size = said.as_ref().map_or(0, ProcessEvent::size);
            let counts = said.is_ok();
            inside.events.push_back(said);
            if counts && !self.flow.got(size) {
                return Err(Error::ConnectionLost(format!(
                    "too many events were not taken, the last of process {}: call recv() of every \
                     process or drop it, or use one connection for each",
                    self.id
                )));
            }
        }
        drop(inside);
        self.arrived.notify_waiters();
        Ok(is_last)
    }
}

impl Inside {
    /// Adds a chunk. Returns the file once it is complete, or an error.
    fn take_chunk(&mut self, frame: Frame) -> Option<Result<ProcessEvent>> {
        let (index, total) = (frame.chunk_index?, frame.total_chunks?);
        if index == 0 {
            let hash = frame.file_hash.unwrap_or_default();
            self.file = Some(IncomingFile { hash, total, next: 0, data: Vec::new() });
        }
        let file = self.file.as_mut()?; // None: the rest of a file that was refused
        let added = file.add(index, total, &frame.chunk_data.unwrap_or_default());
        if added.is_ok() && file.next < file.total {
            return None;
        }
        let file = self.file.take()?;
        Some(added.map(|()| ProcessEvent::File(file.data)))
    }
}

impl IncomingFile {
    fn add(&mut self, index: u32, total: u32, data: &[u8]) -> Result<()> {
        if index != self.next || total != self.total {
            return Err(Error::Integrity(format!(
                "received chunk {index} of {total} of a file, expected {} of {}",
                self.next, self.total
            )));
        }
        if self.data.len() + data.len() > MAX_INCOMING_BYTES {
            let text = format!(
                "the process sent a file over the limit of {} MiB",
                MAX_INCOMING_BYTES >> 20
            );
            return Err(Error::Integrity(text));
        }
        self.data.extend_from_slice(data);
        self.next += 1;
        if self.next == self.total && blake3::hash(&self.data).to_hex().as_str() != self.hash {
            return Err(Error::Integrity(format!(
                "the received file of {} bytes does not match its hash {}",
                self.data.len(),
                self.hash
            )));
        }
        Ok(())
    }
}

fn to_event(frame: Frame) -> Result<ProcessEvent> {
    let value = frame.value.unwrap_or_default();
    Ok(match frame.event.as_deref() {
        Some("stdout") => ProcessEvent::Stdout(value),
        Some("stderr") => ProcessEvent::Stderr(value),
        Some("message") => ProcessEvent::Message(value),
        Some("return") => ProcessEvent::Return(value),
        Some("error") => ProcessEvent::Error(value),
        other => {
            let text = format!("the server sent an event of an unknown kind: {other:?}");
            return Err(Error::ConnectionLost(text));
        }
    })
}
