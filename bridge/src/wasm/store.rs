//! The content of a store: the guest's WASI state, its limits, and its C++ object.
use super::cpu::CpuMeter;
use super::http_out::HttpOut;
use super::quota::Account;
use super::runtime::Limits;
use super::stdio::Stdio;
use super::ticker::TICK;
use crate::host::{Host, Reply};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;
use wasmtime::component::ResourceTable;
use wasmtime::{Engine, ResourceLimiter, Store, UpdateDeadline};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

/// The state of one instance. One thread at a time uses it.
pub struct Guest {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    http_out: HttpOut,
    pub table: ResourceTable,
    /// The accounts of the folders that it may write to.
    pub(super) accounts: Vec<Arc<Account>>,
    /// The C++ side, which implements its host calls.
    pub host: Host,
    memory_limit: usize,
    table_limit: usize,
    /// Why memory or a table was not allowed to grow. That is the likely cause of a trap that follows.
    pub refused: Option<String>,
    /// The result of the last host call. It is kept, so that most calls allocate nothing.
    pub reply: Reply,
}
unsafe impl Send for Guest {}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl WasiHttpView for Guest {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            hooks: &mut self.http_out,
            table: &mut self.table,
            ctx: &mut self.http,
        }
    }
}

impl ResourceLimiter for Guest {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > self.memory_limit {
            self.refused = Some(format!(
                "memory limit: the inferlet asked for {} MiB; {} MiB are allowed (runtime.wasm_max_memory_mb)",
                desired >> 20,
                self.memory_limit >> 20
            ));
        }
        Ok(desired <= self.memory_limit)
    }
    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > self.table_limit {
            self.refused = Some(format!(
                "table limit: the inferlet asked for a table of {desired} elements; {} are allowed",
                self.table_limit
            ));
        }
        Ok(desired <= self.table_limit)
    }
}

/// Makes the store of a new instance.
pub fn new_store(
    engine: &Engine,
    host: Host,
    limits: &Limits,
    folders: [Option<(&str, u64)>; 2], // /scratch and /data: the folder, and how many bytes it may hold
    stdio: &Stdio,
    meter: Arc<CpuMeter>,
    http_out: HttpOut,
    input: &str, // its environment variable PIE_INPUT; empty: none
) -> wasmtime::Result<Store<Guest>> {
    let mut wasi = WasiCtx::builder();
    wasi.stdout(stdio.stream(false)).stderr(stdio.stream(true));
    if !input.is_empty() {
        wasi.env("PIE_INPUT", input);
    }
    wasi.allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    let mut accounts = Vec::new();
    for (dir, name) in folders.into_iter().zip(["/scratch", "/data"]) {
        if let Some((dir, max_bytes)) = dir {
            wasi.preopened_dir(dir, name, FsPerms::ReadWrite)?;
            accounts.push(Account::of(dir, name, max_bytes)?);
        }
    }
    let mut table = ResourceTable::new();
    table.set_max_capacity(limits.max_handles as usize);
    let guest = Guest {
        wasi: wasi.build(),
        http: WasiHttpCtx::new(),
        http_out,
        table,
        accounts,
        host,
        memory_limit: limits.max_memory_bytes as usize,
        table_limit: limits.max_table_elements as usize,
        refused: None,
        reply: Reply::default(),
    };
    let mut store = Store::new(engine, guest);
    store.limiter(|guest| guest);
    store.set_epoch_deadline(1);
    let budget = Duration::from_millis(limits.cpu_budget_ms);
    store.epoch_deadline_callback(move |_| {
        if meter.killed.load(Relaxed) {
            return Err(wasmtime::Error::msg("cancelled"));
        }
        if !budget.is_zero() && meter.used() > budget {
            return Err(wasmtime::format_err!(
                "CPU budget: the inferlet ran for more than {} ms of processor time \
                 (runtime.cpu_budget_ms)",
                budget.as_millis()
            ));
        }
        // Epochs also pass while a guest waits, so only a guest that has computed for a whole tick yields.
        Ok(if meter.slice() < TICK {
            UpdateDeadline::Continue(1)
        } else {
            UpdateDeadline::Yield(1)
        })
    });
    Ok(store)
}
