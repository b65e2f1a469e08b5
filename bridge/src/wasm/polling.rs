//! A limit on `wasi:io/poll.poll`: the host keeps several times as much memory for a list as the guest does, as long as it waits.
use super::store::Guest;
use super::turns::go_apart;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::bindings::io::poll::Host;
use wasmtime_wasi::p2::DynPollable;

/// Pollables of one call. A guest that has more of them asks for some at a time.
const MOST: usize = 16_384;
/// A longer list is taken in on a thread of the guest's user: that takes milliseconds, and nothing interrupts it.
const FEW: usize = 1_024;

/// Replaces the function.
pub fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut poll = linker.instance("wasi:io/poll@0.2.12")?;
    poll.func_wrap_async(
        "poll",
        |mut store, (pollables,): (Vec<Resource<DynPollable>>,)| {
            Box::new(async move {
                if pollables.len() > MOST {
                    wasmtime::bail!(
                        "handle limit: {} pollables in one call of poll; {MOST} are allowed",
                        pollables.len()
                    );
                }
                if pollables.len() > FEW {
                    go_apart().await;
                }
                let guest: &mut Guest = store.data_mut();
                Ok((guest.table.poll(pollables).await?,))
            })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}
