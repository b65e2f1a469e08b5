//! How the generated methods call C++.
use super::reply::{Reply, Take};
use super::table::HostTable;
use crate::abi::GuestPtr;
use crate::wasm::{subscribe, waiter, Guest, Signal, SignalPollable};
use wasmtime::component::Resource;
use wasmtime_wasi::p2::DynPollable;

/// The C++ side of one guest.
#[derive(Clone, Copy)]
pub struct Host {
    pub table: &'static HostTable,
    /// The guest's C++ object, which every function takes first.
    pub guest: GuestPtr,
}
// C++ lets one thread at a time use a guest's object, and the store that holds a `Host` is used in the same way.
unsafe impl Send for Host {}

impl Guest {
    /// Calls a function that gives one number, one handle or nothing. The error is the text that C++ put into the reply.
    pub(super) fn value<T: Default>(
        &mut self,
        call: impl FnOnce(Host, &mut T, &mut Reply) -> bool,
    ) -> Result<T, String> {
        let mut value = T::default();
        if call(self.host, &mut value, &mut self.reply) {
            Ok(value)
        } else {
            Err(self.reply.take_error())
        }
    }

    /// Calls a function that puts its result into the reply.
    pub(super) fn reply<T: Take>(
        &mut self,
        call: impl FnOnce(Host, &mut Reply) -> bool,
    ) -> Result<T, String> {
        if call(self.host, &mut self.reply) {
            Ok(self.reply.take())
        } else {
            Err(self.reply.take_error())
        }
    }

    /// Calls a function that names a signal, and makes a pollable of it.
    pub(super) fn pollable(
        &mut self,
        call: impl FnOnce(Host, &mut *const Signal, &mut Reply) -> bool,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        let mut signal = std::ptr::null();
        if !call(self.host, &mut signal, &mut self.reply) {
            return trap(Err(self.reply.take_error()));
        }
        unsafe { subscribe(&mut self.table, signal) }
    }
}

/// The answer of a function that has no result in WIT: an error traps.
pub(super) fn trap<T>(answer: Result<T, String>) -> wasmtime::Result<T> {
    answer.map_err(wasmtime::Error::msg)
}

/// The guest's resource for a C++ handle.
pub(super) fn own<T: 'static>(handle: u32) -> Resource<T> {
    Resource::new_own(handle)
}

/// The state that a function that waits keeps from one call to the next. It is empty at the first call.
///
/// A function that sets `signal` is called again with the same arguments once the signal has fired. Its answer is
/// dropped.
#[repr(C)]
pub struct Wait {
    /// For the function's own use, such as the handle that it waits for.
    pub ticket: u32,
    pub has_ticket: bool,
    pub signal: *const Signal,
}
// The pointer is null whenever the guest suspends.
unsafe impl Send for Wait {}

impl Default for Wait {
    fn default() -> Self {
        Wait {
            ticket: 0,
            has_ticket: false,
            signal: std::ptr::null(),
        }
    }
}

impl Wait {
    /// Takes the signal that the last call has set.
    pub(super) fn signal(&mut self) -> Option<SignalPollable> {
        let signal = std::mem::replace(&mut self.signal, std::ptr::null());
        unsafe { waiter(signal) }
    }
}
