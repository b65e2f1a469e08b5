//! Random bytes. A call for many of them takes up to a hundred milliseconds, and nothing interrupts it, so it runs on a thread
//! of the guest's user.
use super::store::Guest;
use super::turns::go_apart;
use wasmtime::component::Linker;
use wasmtime_wasi::p2::bindings::random::{insecure, random};
use wasmtime_wasi::random::WasiRandomView;

/// Generating this many bytes takes about 100 µs.
const FEW: u64 = 16 << 10;

/// Replaces the functions.
pub fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    linker
        .instance("wasi:random/random@0.2.12")?
        .func_wrap_async("get-random-bytes", |mut store, (len,): (u64,)| {
            Box::new(async move {
                if len > FEW {
                    go_apart().await;
                }
                let guest: &mut Guest = store.data_mut();
                Ok((random::Host::get_random_bytes(guest.random(), len)?,))
            })
        })?;
    linker
        .instance("wasi:random/insecure@0.2.12")?
        .func_wrap_async("get-insecure-random-bytes", |mut store, (len,): (u64,)| {
            Box::new(async move {
                if len > FEW {
                    go_apart().await;
                }
                let guest: &mut Guest = store.data_mut();
                Ok((insecure::Host::get_insecure_random_bytes(
                    guest.random(),
                    len,
                )?,))
            })
        })?;
    linker.allow_shadowing(false);
    Ok(())
}
