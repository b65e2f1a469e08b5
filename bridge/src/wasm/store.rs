//! The content of a store: the guest's WASI state, its limits, and its C++ object.
use super::cpu::{CpuMeter, BIG_MEMORY_BYTES};
use super::http_out::HttpOut;
use super::quota::{Account, Quota};
use super::runtime::Limits;
use super::stdio::Stdio;
use super::ticker::TICK;
use super::weight::{self, HTTP_FIELDS_BYTES};
use crate::abi::GuestPtr;
use crate::host::{Host, Reply};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;
use wasmtime::component::ResourceTable;
use wasmtime::{Engine, ResourceLimiterAsync, Store, UpdateDeadline};
use wasmtime_wasi::async_trait;
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
    /// Bytes of all linear memories, and elements of all tables.
    memory_used: usize,
    tables_used: usize,
    /// Bytes of WASI objects that were charged. They stay charged until the guest ends.
    weighed: usize,
    meter: Arc<CpuMeter>,
    grow: extern "C" fn(GuestPtr, u64) -> bool,
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

/// Random bytes of one call, which takes some milliseconds for so many.
const RANDOM_BYTES: u64 = 16 << 20;

/// How many memories, tables and core instances one guest may have. Real components have a few.
const MAX_MEMORIES: usize = 16;
const MAX_TABLES: usize = 64;
const MAX_INSTANCES: usize = 256;

/// What the WASI objects of a guest may weigh without a charge. Few guests have more.
const FREE_WEIGHT: usize = 1 << 20;

impl Guest {
    /// Charges the guest's user for its WASI objects, if they have become more.
    fn weigh(&mut self) -> wasmtime::Result<()> {
        let weight = weight::of(&mut self.table).saturating_sub(FREE_WEIGHT);
        let more = weight.saturating_sub(self.weighed);
        if more == 0 {
            return Ok(());
        }
        let wanted = self.memory_used.saturating_add(weight);
        if wanted > self.memory_limit || !(self.grow)(self.host.guest, more as u64) {
            wasmtime::bail!(
                "memory limit: the streams, requests and other WASI objects of the inferlet hold {} MiB",
                weight >> 20
            );
        }
        self.weighed = weight;
        Ok(())
    }
}

#[async_trait]
impl ResourceLimiterAsync for Guest {
    async fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let wanted = self.memory_used.saturating_add(more);
        if wanted.saturating_add(self.weighed) > self.memory_limit {
            self.refused = Some(format!(
                "memory limit: the inferlet asked for {} MiB; {} MiB are allowed (runtime.wasm_max_memory_mb)",
                wanted >> 20,
                self.memory_limit >> 20
            ));
            return Ok(false);
        }
        if !(self.grow)(self.host.guest, more as u64) {
            self.refused = Some(
                "memory limit: the inferlets of this user hold all the memory that they may; try again when some have \
                 ended (runtime.wasm_total_memory_mb)"
                    .into(),
            );
            return Ok(false);
        }
        self.memory_used = wanted;
        if wanted > BIG_MEMORY_BYTES && !self.meter.big.swap(true, Relaxed) {
            tokio::task::yield_now().await; // it goes on at a thread for such guests
        }
        Ok(true)
    }
    async fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let wanted = self
            .tables_used
            .saturating_add(desired.saturating_sub(current));
        if wanted > self.table_limit {
            self.refused = Some(format!(
                "table limit: the inferlet asked for tables of {wanted} elements; {} are allowed",
                self.table_limit
            ));
            return Ok(false);
        }
        self.tables_used = wanted;
        Ok(true)
    }
    fn memories(&self) -> usize {
        MAX_MEMORIES
    }
    fn tables(&self) -> usize {
        MAX_TABLES
    }
    fn instances(&self) -> usize {
        MAX_INSTANCES
    }
}

/// Makes the store of a new instance.
pub fn new_store(
    engine: &Engine,
    host: Host,
    limits: &Limits,
    grow: extern "C" fn(GuestPtr, u64) -> bool,
    folders: &[Option<Quota>; 2], // /scratch and /data
    stdio: &Stdio,
    meter: Arc<CpuMeter>,
    http_out: HttpOut,
    input: &str, // its environment variable PIE_INPUT; empty: none
) -> wasmtime::Result<Store<Guest>> {
    let mut wasi = WasiCtx::builder();
    wasi.stdout(stdio.stream(false)).stderr(stdio.stream(true));
    wasi.max_random_size(RANDOM_BYTES);
    if !input.is_empty() {
        wasi.env("PIE_INPUT", input);
    }
    wasi.allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    let mut accounts = Vec::new();
    for (folder, name) in folders.iter().zip(["/scratch", "/data"]) {
        if let Some(folder) = folder {
            wasi.preopened_dir(&folder.dir, name, FsPerms::ReadWrite)?;
            accounts.push(Account::of(folder, name)?);
        }
    }
    let mut table = ResourceTable::new();
    table.set_max_capacity(limits.max_handles as usize);
    let mut http = WasiHttpCtx::new();
    http.set_field_size_limit(HTTP_FIELDS_BYTES);
    let guest = Guest {
        wasi: wasi.build(),
        http,
        http_out,
        table,
        accounts,
        host,
        memory_limit: limits.max_memory_bytes as usize,
        table_limit: limits.max_table_elements as usize,
        memory_used: 0,
        tables_used: 0,
        weighed: 0,
        meter: meter.clone(),
        grow,
        refused: None,
        reply: Reply::default(),
    };
    let mut store = Store::new(engine, guest);
    store.limiter_async(|guest| guest);
    store.set_epoch_deadline(1);
    let budget = Duration::from_millis(limits.cpu_budget_ms);
    store.epoch_deadline_callback(move |mut store| {
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
        store.data_mut().weigh()?;
        // Epochs also pass while a guest waits, so only a guest that has computed for a whole tick yields.
        Ok(if meter.slice() < TICK {
            UpdateDeadline::Continue(1)
        } else {
            UpdateDeadline::Yield(1)
        })
    });
    Ok(store)
}
