//! The content of a store: the guest's WASI state, its limits, and its C++ object.
use super::accounts::{Account, Quota};
use super::cpu::{CpuMeter, BIG_MEMORY_BYTES};
use super::http_out::HttpOut;
use super::quota::Say;
use super::runtime::{Callbacks, Limits};
use super::stdio::Stdio;
use super::ticker::TICK;
use super::weight::{self, HTTP_FIELDS_BYTES};
use crate::host::{Host, Reply};
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::Duration;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime::{Engine, ResourceLimiterAsync, Store, UpdateDeadline};
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::ReaddirIterator;
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
    pub(super) say: Say,
    /// The C++ side, which implements its host calls.
    pub host: Host,
    memory_limit: usize,
    table_limit: usize,
    /// Bytes of all linear memories, and elements of all tables.
    memory_used: usize,
    tables_used: usize,
    /// Bytes of WASI objects that were charged. They stay charged until the guest ends.
    weighed: usize,
    /// The bytes of the names that its listings of folders hold, by their places in the table.
    listings: HashMap<u32, usize>,
    /// Open files and streams that were charged: the most that it had at once.
    files_charged: usize,
    meter: Arc<CpuMeter>,
    callbacks: Callbacks,
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

/// Limit on the random bytes of one call. A call of this size takes some milliseconds.
const RANDOM_BYTES: u64 = 16 << 20;

/// How many memories, tables and core instances one guest may have. Real components have a few.
pub const MAX_MEMORIES: usize = 2;
pub const MAX_TABLES: usize = 8;
pub const MAX_INSTANCES: usize = 256;

/// An element of a table is a reference.
const TABLE_ELEMENT_BYTES: usize = 16;

const OUT_OF_MEMORY: &str =
    "memory limit: the inferlets of this user hold all the memory that they may; try again when some have ended \
     (runtime.wasm_total_memory_mb)";

/// The bytes of WASI objects that a guest may hold without a charge. Few guests have more.
const FREE_WEIGHT: usize = 1 << 20;

impl Guest {
    /// Charges the guest's user for its WASI objects, if they have grown.
    fn weigh(&mut self) -> wasmtime::Result<()> {
        let weight = weight::of(&mut self.table) + self.weight_of_listings();
        let weight = weight.saturating_sub(FREE_WEIGHT);
        let more = weight.saturating_sub(self.weighed);
        if more == 0 {
            return Ok(());
        }
        let wanted = self.memory_used.saturating_add(weight);
        if wanted > self.memory_limit || !self.may_grow(more) {
            wasmtime::bail!(
                "memory limit: the streams, requests and other WASI objects of the inferlet hold {} MiB",
                weight >> 20
            );
        }
        self.weighed = weight;
        Ok(())
    }

    /// Charges the guest's user for a listing, at once: a guest that lists folders computes little, so ticks come too late.
    pub(super) fn count_listing(
        &mut self,
        listing: &Resource<ReaddirIterator>,
        bytes: usize,
    ) -> wasmtime::Result<()> {
        self.listings.insert(listing.rep(), bytes);
        self.weigh()
    }

    fn weight_of_listings(&mut self) -> usize {
        let table = &self.table;
        let is_there = |rep: u32| {
            table
                .get::<ReaddirIterator>(&Resource::new_borrow(rep))
                .is_ok()
        };
        self.listings.retain(|rep, _| is_there(*rep));
        self.listings.values().sum()
    }

    fn may_grow(&self, bytes: usize) -> bool {
        (self.callbacks.grow)(self.host.guest, bytes as u64)
    }

    /// Charges the guest's user for one more open file or stream, unless the guest has had as many before. A file takes a
    /// descriptor of this process. A stream can have a read or a write under way, which takes a thread.
    pub(super) fn open_one(&mut self) -> wasmtime::Result<()> {
        let open = weight::open_files(&mut self.table) + 1;
        let more = open.saturating_sub(self.files_charged);
        if more == 0 {
            return Ok(());
        }
        if !(self.callbacks.open_files)(self.host.guest, more as u64) {
            wasmtime::bail!(
                "file limit: the inferlet has {} open files and streams, and the inferlets of its user have all that they may; \
                 close some",
                open - 1
            );
        }
        self.files_charged = open;
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
        if !self.may_grow(more) {
            self.refused = Some(OUT_OF_MEMORY.into());
            return Ok(false);
        }
        self.memory_used = wanted;
        if wanted > BIG_MEMORY_BYTES && !self.meter.big.swap(true, Relaxed) {
            tokio::task::yield_now().await; // it continues on a thread for such guests
        }
        Ok(true)
    }
    async fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let wanted = self.tables_used.saturating_add(more);
        if wanted > self.table_limit {
            self.refused = Some(format!(
                "table limit: the inferlet asked for tables of {wanted} elements; {} are allowed",
                self.table_limit
            ));
            return Ok(false);
        }
        if !self.may_grow(more * TABLE_ELEMENT_BYTES) {
            self.refused = Some(OUT_OF_MEMORY.into());
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
#[allow(clippy::too_many_arguments)] // each is a part of the store that its caller makes
pub fn new_store(
    engine: &Engine,
    host: Host,
    limits: &Limits,
    callbacks: Callbacks,
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
    let own_stdio = stdio.clone();
    let guest = Guest {
        wasi: wasi.build(),
        http,
        http_out,
        table,
        accounts,
        say: Arc::new(move |line: &str| own_stdio.say_once(line)),
        host,
        memory_limit: limits.max_memory_bytes as usize,
        table_limit: limits.max_table_elements as usize,
        memory_used: 0,
        tables_used: 0,
        weighed: 0,
        listings: HashMap::new(),
        files_charged: 0,
        meter: meter.clone(),
        callbacks,
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
