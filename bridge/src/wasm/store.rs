//! What a store holds: the guest's WASI state, its limits, and the C++ object that answers its host calls.
use super::cpu::CpuMeter;
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
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView};

/// The state of one instance. Used by one thread at a time.
pub struct Guest {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    http_hooks: DenyHttp,
    pub table: ResourceTable,
    /// Of the folders that it may write to.
    pub(super) accounts: Vec<Arc<Account>>,
    /// What answers its host calls.
    pub host: Host,
    memory_limit: usize,
    table_limit: usize,
    /// Set when a growth was refused: the likely cause of the trap that follows.
    pub refused: Option<String>,
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
            hooks: &mut self.http_hooks,
            table: &mut self.table,
            ctx: &mut self.http,
        }
    }
}

type HttpIo = Box<dyn std::future::Future<Output = Result<(), wasmtime_wasi_http::Error>> + Send>;
type HttpReply = wasmtime_wasi_http::Result<(http::Response<wasmtime_wasi_http::WasiBody>, HttpIo)>;

/// Outgoing HTTP is linked, so that guests which import it start, and refused.
struct DenyHttp;
impl WasiHttpHooks for DenyHttp {
    fn send_request(
        &mut self,
        _request: http::Request<wasmtime_wasi_http::WasiBody>,
        _options: Option<wasmtime_wasi_http::RequestOptions>,
        _io: HttpIo,
    ) -> Box<dyn std::future::Future<Output = HttpReply> + Send> {
        Box::new(async { Err(wasmtime_wasi_http::Error::HttpRequestDenied) })
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
                "memory limit: the inferlet asked for {} MiB, {} MiB are allowed (runtime.wasm_max_memory_mb)",
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
                "table limit: the inferlet asked for a table of {desired} elements, {} are allowed",
                self.table_limit
            ));
        }
        Ok(desired <= self.table_limit)
    }
}

/// A store ready to be instantiated into.
pub fn new_store(
    engine: &Engine,
    host: Host,
    limits: &Limits,
    folders: [Option<(&str, u64)>; 2], // /scratch and /data, and how many bytes each may hold
    stdio: &Stdio,
    meter: Arc<CpuMeter>,
) -> wasmtime::Result<Store<Guest>> {
    let mut wasi = WasiCtx::builder();
    wasi.stdout(stdio.stream(false)).stderr(stdio.stream(true));
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
        http_hooks: DenyHttp,
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
        // Epochs pass while a guest waits: only a slice that was really used gives way.
        Ok(if meter.slice() < TICK {
            UpdateDeadline::Continue(1)
        } else {
            UpdateDeadline::Yield(1)
        })
    });
    Ok(store)
}
