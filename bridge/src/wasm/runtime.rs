//! The runtime: two compilers (Cranelift for fast code, Winch for a fast first start), one executor and one ticker.
use super::cache::CodeCache;
use super::compiler::{CompileLimits, Compiler};
use super::http_errors;
use super::http_out::{HttpConfig, HttpPolicy};
use super::polling;
use super::quota;
use super::random;
use super::signal::Signal;
use super::store::{Guest, MAX_INSTANCES, MAX_MEMORIES, MAX_TABLES};
use super::ticker::Ticker;
use super::turns::Turns;
use crate::abi::{guarded, pie_out_text, GuestPtr, Out, Str};
use crate::host::HostTable;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::component::Linker;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy,
    WasmBacktraceDetails,
};

/// The limits of one guest.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Limits {
    pub max_memory_bytes: u64,
    pub max_table_elements: u64,
    /// WASI handles (pollables, streams and files) that exist at the same time.
    pub max_handles: u32,
    /// Processor time of the whole run. 0 means no limit.
    pub cpu_budget_ms: u64,
    /// Bytes that are written to stdout and stderr together.
    pub max_output_bytes: u64,
}

/// How a run ended.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitKind {
    /// The text is the return value.
    Returned,
    /// The guest returned an error, which is the text.
    Failed,
    /// The guest trapped, exceeded a limit or could not be started. The text says why.
    Trapped,
    Cancelled,
}

/// Functions of C++ that are called on the threads that run guests. After `on_exit` the bridge never uses the guest's object
/// again.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Callbacks {
    pub on_output: extern "C" fn(GuestPtr, is_stderr: bool, Str),
    /// The signal to wait for before the guest may write more. Null while there is room.
    pub room: extern "C" fn(GuestPtr) -> *const Signal,
    /// The guest's memories are about to grow by this many bytes. False: they may not.
    pub grow: extern "C" fn(GuestPtr, bytes: u64) -> bool,
    /// The guest is about to have this many more files, streams and sockets open than ever before. False: it may not.
    pub open_files: extern "C" fn(GuestPtr, count: u64) -> bool,
    pub on_exit: extern "C" fn(GuestPtr, ExitKind, Str),
    /// The guest has taken a piece of its request's body.
    pub on_body_taken: extern "C" fn(GuestPtr),
    /// The guest's response begins. The headers are lines of the form `name:value`.
    pub on_response: extern "C" fn(GuestPtr, status: u16, headers: Str),
    /// A piece of the response's body. The guest continues when `room` is null.
    pub on_response_body: extern "C" fn(GuestPtr, Str),
    /// The end of the response. It is false if the guest did not finish the body.
    pub on_response_end: extern "C" fn(GuestPtr, complete: bool),
}

#[repr(C)]
pub struct RuntimeConfig {
    /// The number of threads that run guests. 0 means one for each core.
    pub worker_threads: u32,
    /// The number of guests that run at the same time. Others wait.
    pub max_instances: u32,
    pub limits: Limits,
    /// Whether guests run only the quick compiler's code. It is for tests of that code.
    pub quick_only: bool,
    /// The folder of the code cache. Empty: code is not cached.
    pub cache_dir: Str,
    /// The program of the compiler, which has the command that calls `pie_compile_main`. Empty: this process compiles.
    pub compiler: Str,
    pub compile_limits: CompileLimits,
    pub callbacks: Callbacks,
    /// The hosts that guests may reach by HTTP.
    pub http: HttpConfig,
}

/// One compiler, and the host functions that its code links to.
pub struct Tier {
    pub engine: Engine,
    pub linker: Linker<Guest>,
    /// Whether its compiler is the quick one.
    pub is_quick: bool,
}

pub struct Runtime {
    pub optimised: Tier,
    /// Compiles several times faster, to slower code. None on processors that Winch does not support.
    pub quick: Option<Tier>,
    pub quick_only: bool,
    pub cache: Option<CodeCache>,
    pub compiler: Compiler,
    pub tokio: tokio::runtime::Runtime,
    /// Threads for the engine's own calls that block. Those of `tokio` read and write the files of guests, who can give them
    /// much to do.
    pub own_threads: tokio::runtime::Runtime,
    /// How many folders of each user's guests are made and removed at the same time.
    folder_turns: Mutex<HashMap<u64, Arc<Semaphore>>>,
    pub turns: Arc<Turns>,
    pub ticker: Arc<Ticker>,
    pub host: &'static HostTable,
    pub limits: Limits,
    pub callbacks: Callbacks,
    pub http: Arc<HttpPolicy>,
    pub places: Arc<Semaphore>,
    /// Counts instances between launch and `on_exit`.
    pub live: Arc<Live>,
    pub stopping: tokio::sync::watch::Sender<bool>,
}

/// Counts instances, and lets a thread wait until there are none.
#[derive(Default)]
pub struct Live {
    count: Mutex<usize>,
    none: Condvar,
}

impl Live {
    pub fn enter(&self) {
        *self.count.lock().unwrap() += 1;
    }
    pub fn leave(&self) {
        let mut count = self.count.lock().unwrap();
        *count -= 1;
        if *count == 0 {
            self.none.notify_all();
        }
    }
    fn count(&self) -> usize {
        *self.count.lock().unwrap()
    }
    fn wait_for_none(&self) {
        let count = self.count.lock().unwrap();
        drop(self.none.wait_while(count, |count| *count > 0));
    }
}

/// The stack of a guest. Host calls use the rest of the fiber's stack.
const WASM_STACK: usize = 1 << 20;
const FIBER_STACK: usize = 2 << 20;

/// The settings of a compiler. They do not depend on how memory is allocated at run time.
pub fn config_of(quick: bool) -> Config {
    let mut config = Config::new();
    if quick {
        config.strategy(Strategy::Winch);
    }
    // Backtraces show the names of functions, which are looked up in the name section. To find lines as well, wasmtime would
    // read the debug information of the component again for each frame of each trap, on the guest's thread. A component of
    // some kilobytes can be made so that this takes gigabytes and minutes.
    config
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(FIBER_STACK)
        .concurrency_support(false)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable);
    config
}

/// The most memory that the records of a guest's core instances take: their globals, imports and references to
/// functions. Python and JavaScript need half a mebibyte.
const RECORDS_BYTES: usize = 4 << 20;

/// The pool has room for the largest component that it takes, once for each instance. So no guest can leave too little for
/// another one.
fn pooled(max_instances: u32, limits: &Limits) -> PoolingAllocationConfig {
    let of_all = |each: usize| max_instances.saturating_mul(each as u32);
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(max_instances)
        .total_core_instances(of_all(MAX_INSTANCES))
        .total_memories(of_all(MAX_MEMORIES))
        .total_tables(of_all(MAX_TABLES))
        .total_stacks(max_instances)
        .max_core_instances_per_component(MAX_INSTANCES as u32)
        .max_memories_per_component(MAX_MEMORIES as u32)
        .max_memories_per_module(MAX_MEMORIES as u32)
        .max_tables_per_component(MAX_TABLES as u32)
        .max_tables_per_module(MAX_TABLES as u32)
        .table_elements(limits.max_table_elements as usize)
        .max_memory_size(limits.max_memory_bytes as usize)
        .max_component_instance_size(RECORDS_BYTES)
        .max_core_instance_size(RECORDS_BYTES)
        .linear_memory_keep_resident(128 << 10)
        .table_keep_resident(64 << 10)
        .async_stack_keep_resident(32 << 10)
        .max_unused_warm_slots(max_instances.min(256))
        .pagemap_scan(Enabled::Auto);
    pool
}

impl Tier {
    fn new(config: &Config, is_quick: bool) -> wasmtime::Result<Tier> {
        let engine = Engine::new(config)?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        quota::add_to_linker(&mut linker)?;
        polling::add_to_linker(&mut linker)?;
        random::add_to_linker(&mut linker)?;
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
        http_errors::add_to_linker(&mut linker)?;
        crate::host::add_to_linker(&mut linker)?;
        Ok(Tier {
            engine,
            linker,
            is_quick,
        })
    }
}

/// Folders of one user's guests that are made and removed at the same time. A user who launches and cancels thousands of guests
/// takes no more of the threads for it.
const FOLDERS_AT_ONCE: usize = 4;

impl Runtime {
    /// Waits until a folder of a guest of this user may be made or removed.
    pub async fn folder_turn(&self, user: u64) -> Option<OwnedSemaphorePermit> {
        let turns = {
            let mut all = self.folder_turns.lock().unwrap();
            if all.len() > 1_024 {
                all.retain(|_, turns| Arc::strong_count(turns) > 1); // a permit holds its semaphore
            }
            let made = || Arc::new(Semaphore::new(FOLDERS_AT_ONCE));
            all.entry(user).or_insert_with(made).clone()
        };
        turns.acquire_owned().await.ok() // it is never closed
    }

    /// The tier whose code a program ends up with.
    pub fn final_tier(&self) -> &Tier {
        match &self.quick {
            Some(quick) if self.quick_only => quick,
            _ => &self.optimised,
        }
    }

    fn new(config: &RuntimeConfig, host: &'static HostTable) -> wasmtime::Result<Arc<Runtime>> {
        let config_of_tier = |quick| {
            let pool = pooled(config.max_instances, &config.limits);
            let mut config = config_of(quick);
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
            config
        };
        let mut executor = tokio::runtime::Builder::new_multi_thread();
        executor.enable_all().thread_name("pie-guest");
        if config.worker_threads > 0 {
            executor.worker_threads(config.worker_threads as usize);
        }
        let http = Arc::new(HttpPolicy::new(&config.http).map_err(wasmtime::Error::msg)?);
        let cache_dir = unsafe { config.cache_dir.to_string_lossy() };
        let tokio = executor.build()?;
        let own_threads = tokio::runtime::Builder::new_current_thread()
            .thread_name("pie-blocking")
            .build()?;
        let compiler = unsafe { config.compiler.to_string_lossy() };
        let compiler = (!compiler.is_empty()).then(|| PathBuf::from(compiler));
        let optimised = Tier::new(&config_of_tier(false), false)?;
        let quick = match Tier::new(&config_of_tier(true), true) {
            Err(e) if config.quick_only => {
                return Err(e.context("the quick compiler does not run on this processor"))
            }
            tier => tier.ok(),
        };
        let engines = std::iter::once(&optimised).chain(&quick);
        let engines = engines.map(|tier| tier.engine.clone()).collect();
        let ticker = Arc::new(Ticker::new(engines));
        let runtime = Arc::new(Runtime {
            optimised,
            quick,
            quick_only: config.quick_only,
            cache: (!cache_dir.is_empty())
                .then(|| CodeCache::open(PathBuf::from(cache_dir)))
                .flatten(),
            compiler: Compiler::new(compiler, config.compile_limits),
            turns: Turns::new(tokio.handle().clone(), own_threads.handle().clone()),
            tokio,
            own_threads,
            folder_turns: Mutex::default(),
            ticker: ticker.clone(),
            host,
            limits: config.limits,
            callbacks: config.callbacks,
            http,
            places: Arc::new(Semaphore::new(config.max_instances as usize)),
            live: Arc::default(),
            stopping: tokio::sync::watch::Sender::new(false),
        });
        std::thread::Builder::new()
            .name("pie-ticker".into())
            .spawn(move || ticker.run())?;
        Ok(runtime)
    }
}

/// Starts a runtime. On failure, returns null and puts the reason into `error`. `host` must live as long as the process.
#[no_mangle]
pub unsafe extern "C" fn pie_runtime_new(
    config: &RuntimeConfig,
    host: &'static HostTable,
    error: *mut Out,
) -> *const Runtime {
    guarded(std::ptr::null(), || match Runtime::new(config, host) {
        Ok(runtime) => Arc::into_raw(runtime),
        Err(e) => {
            pie_out_text(
                error,
                Str::of(&format!("cannot start the WebAssembly runtime: {e:#}")),
            );
            std::ptr::null()
        }
    })
}

/// Kills the compilers that run, and lets no other begin.
#[no_mangle]
pub extern "C" fn pie_runtime_stop_compilers(runtime: &Runtime) {
    guarded((), || runtime.compiler.stop())
}

/// Cancels every instance, waits until all have called `on_exit`, and stops the runtime.
#[no_mangle]
pub unsafe extern "C" fn pie_runtime_free(runtime: *const Runtime) {
    guarded((), || {
        let runtime = Arc::from_raw(runtime);
        runtime.stopping.send_replace(true);
        runtime.live.wait_for_none();
        runtime.ticker.stop();
        if let Ok(owned) = Arc::try_unwrap(runtime) {
            owned.own_threads.shutdown_timeout(Duration::from_secs(1));
            owned.tokio.shutdown_timeout(Duration::from_secs(1));
        }
    })
}

/// The number of instances between launch and `on_exit`.
#[no_mangle]
pub unsafe extern "C" fn pie_runtime_live(runtime: &Runtime) -> usize {
    runtime.live.count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmtime::component::Component;
    use wasmtime::Store;

    fn section(id: u8, content: &[u8]) -> Vec<u8> {
        let mut section = vec![id];
        let mut left = content.len();
        while left > 0x7f {
            section.push(left as u8 | 0x80);
            left >>= 7;
        }
        section.push(left as u8);
        section.extend_from_slice(content);
        section
    }

    /// A component with an instance of a module that has this many memories and tables, and further instances of an empty one.
    fn component(memories: usize, tables: usize, further: usize) -> Vec<u8> {
        let header = b"\0asm\x01\0\0\0";
        let mut memory_section = vec![memories as u8];
        memory_section.extend([0u8, 1].repeat(memories)); // of at least one page
        let mut table_section = vec![tables as u8];
        table_section.extend([0x70u8, 0, 1].repeat(tables)); // of at least one function
        let mut module = header.to_vec();
        module.extend(section(4, &table_section));
        module.extend(section(5, &memory_section));
        let mut component = b"\0asm\x0d\0\x01\0".to_vec();
        component.extend(section(1, &module));
        component.extend(section(1, header));
        let instances = [vec![1u8, 0, 0, 0]]
            .into_iter()
            .chain(std::iter::repeat_n(vec![1u8, 0, 1, 0], further));
        for instance in instances {
            component.extend(section(2, &instance));
        }
        component
    }

    #[test]
    fn the_pool_has_room_for_the_largest_components_of_all_guests() {
        let limits = Limits {
            max_memory_bytes: 1 << 20,
            max_table_elements: 1_000,
            max_handles: 10,
            cpu_budget_ms: 0,
            max_output_bytes: 0,
        };
        let mut config = config_of(false);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pooled(3, &limits)));
        let engine = Engine::new(&config).unwrap();
        let largest = component(MAX_MEMORIES, MAX_TABLES, MAX_INSTANCES - 1);
        let largest = Component::new(&engine, largest).unwrap();
        let linker = Linker::<()>::new(&engine);
        let executor = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let mut stores: Vec<_> = (0..3).map(|_| Store::new(&engine, ())).collect();
        for store in &mut stores {
            store.set_epoch_deadline(1);
            let made = linker.instantiate_async(store, &largest);
            executor.block_on(made).unwrap();
        }
        let refused = [
            component(MAX_MEMORIES + 1, 0, 0),
            component(0, MAX_TABLES + 1, 0),
            component(0, 0, MAX_INSTANCES),
        ];
        for larger in refused {
            assert!(Component::new(&engine, larger).is_err());
        }
    }
}
