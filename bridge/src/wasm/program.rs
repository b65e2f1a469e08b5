//! A program: a component that is compiled and linked, and whose entry point was found: `run`, or the handler of HTTP requests.
//! A large component first runs on code of the quick compiler, until `pie_program_optimise` has compiled it again.
use super::lines::Lines;
use super::runtime::{Runtime, Tier};
use super::store::Guest;
use crate::abi::{guarded, pie_out_text, Out, Str};
use std::ffi::c_void;
use std::io::{Read, Seek};
use std::sync::{Arc, RwLock};
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Type};
use wasmtime::{bail, Result};
use wasmtime_wasi_http::p2::bindings::ProxyPre;

/// The phase of loading a program, for progress displays.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum LoadPhase {
    /// The code was found in the cache.
    Cached,
    /// The component is being compiled. That takes seconds for Python and JavaScript.
    Compiling,
}

/// The code of one tier, ready to be instantiated.
pub struct Code {
    pub pre: InstancePre<Guest>,
    /// The function `run`, if the component has it.
    pub run: Option<ComponentExportIndex>,
    /// The handler of HTTP requests, if the component has it.
    pub http: Option<ProxyPre<Guest>>,
    is_quick: bool,
    /// The bytes that the code and its data take in memory.
    bytes: usize,
    /// Whether the component can use files: by WASI, or by naming a path to the engine.
    pub uses_files: bool,
}

pub struct Program {
    pub runtime: Arc<Runtime>,
    /// The line table, for backtraces of instances that trap.
    pub lines: Option<Lines>,
    /// The best code so far.
    code: RwLock<Arc<Code>>,
}

/// Smaller components compile in well under a second, so they need no quick code.
const QUICK_TIER_BYTES: usize = 2 << 20;

impl Program {
    pub fn code(&self) -> Arc<Code> {
        self.code.read().unwrap().clone()
    }

    /// Finds the code in the cache, or compiles. Without `may_compile`, the result is None if it would have to compile.
    fn load(
        runtime: Arc<Runtime>,
        bytes: &[u8],
        owner: &str,
        may_compile: bool,
        phase: impl Fn(LoadPhase),
    ) -> Result<Option<Arc<Program>>> {
        check_header(bytes)?;
        let tier = runtime.final_tier();
        let cached = runtime
            .cache
            .as_ref()
            .and_then(|c| c.find(&tier.engine, bytes));
        if let Some(component) = cached {
            phase(LoadPhase::Cached);
            let code = Code::link(tier, &component)?;
            return Ok(Some(Program::new(runtime, code, bytes)));
        }
        if !may_compile {
            return Ok(None);
        }
        phase(LoadPhase::Compiling);
        if bytes.len() >= QUICK_TIER_BYTES && !runtime.quick_only {
            // If Winch fails, Cranelift compiles the component, or reports what is wrong with it.
            let quick = runtime.quick.as_ref();
            let first = quick.and_then(|t| Some((t, compile(&runtime, t, bytes, owner).ok()?)));
            if let Some((tier, component)) = first {
                let code = Code::link(tier, &component)?;
                return Ok(Some(Program::new(runtime, code, bytes)));
            }
        }
        let component = compile(&runtime, tier, bytes, owner)?;
        let code = Code::link(tier, &component)?;
        Ok(Some(Program::new(runtime, code, bytes)))
    }

    fn new(runtime: Arc<Runtime>, code: Code, component: &[u8]) -> Arc<Program> {
        Arc::new(Program {
            runtime,
            lines: Lines::of(component),
            code: RwLock::new(Arc::new(code)),
        })
    }

    fn wants_optimising(&self) -> bool {
        self.code().is_quick && !self.runtime.quick_only
    }

    fn optimise(&self, bytes: &[u8], owner: &str) -> Result<()> {
        let tier = &self.runtime.optimised;
        let component = compile(&self.runtime, tier, bytes, owner)?;
        let better = Code::link(tier, &component)?;
        *self.code.write().unwrap() = Arc::new(better);
        Ok(())
    }
}

impl Code {
    fn link(tier: &Tier, component: &Component) -> Result<Code> {
        let entries = find_entries(tier, component)?;
        let pre = tier.linker.instantiate_pre(component).map_err(|e| {
            wasmtime::format_err!(
                "the component imports something that this engine does not provide: {e:#}"
            )
        })?;
        let http = if entries.serves {
            Some(ProxyPre::new(pre.clone())?)
        } else {
            None
        };
        let image = component.image_range();
        let imports = component.component_type();
        let mut imports = imports.imports(&tier.engine);
        Ok(Code {
            pre,
            run: entries.run,
            http,
            is_quick: tier.is_quick,
            bytes: image.end as usize - image.start as usize,
            uses_files: imports.any(|(name, _)| {
                name.starts_with("wasi:filesystem/")
                    || name.starts_with("pie:core/adapter")
                    || name.starts_with("pie:plus/adapters")
            }),
        })
    }
}

/// Compiles with a tier's compiler, and stores the code in the cache, where each compiler has separate entries. The
/// entry's size counts for the user `owner`.
fn compile(runtime: &Runtime, tier: &Tier, bytes: &[u8], owner: &str) -> Result<Component> {
    let engine = &tier.engine;
    let mut code = runtime.compiler.compile(tier, bytes)?;
    // The quick compiler's code is kept only where no better code follows.
    let cache = runtime.cache.as_ref();
    if let Some(cache) = cache.filter(|_| !tier.is_quick || runtime.quick_only) {
        if cache.keep(engine, bytes, owner, &mut code).is_ok() {
            // Code that is mapped from the file can be shared and evicted from memory.
            if let Some(component) = cache.find(engine, bytes) {
                return Ok(component);
            }
        }
    }
    let mut bytes = vec![];
    code.rewind()?;
    code.read_to_end(&mut bytes)?;
    unsafe { Component::deserialize(engine, &bytes) }
}

fn check_header(bytes: &[u8]) -> Result<()> {
    match bytes {
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => bail!(
            "this is a core WebAssembly module, not a component; build the inferlet with `bakery build`"
        ),
        [] => bail!("the file is empty; build the inferlet with `bakery build`"),
        _ => bail!("this is not a WebAssembly component; build the inferlet with `bakery build`"),
    }
}

/// The function that a component exports for the engine to call.
struct Entries {
    run: Option<ComponentExportIndex>,
    /// Whether it exports `wasi:http/incoming-handler`.
    serves: bool,
}

/// How many exports an error about a component names, and how much of each name.
const NAMED_EXPORTS: usize = 16;
const NAME_CHARS: usize = 128;

/// Finds the export `pie:<package>/run` with the function `run` in it, and the handler of HTTP requests.
fn find_entries(tier: &Tier, component: &Component) -> Result<Entries> {
    let mut entries = Entries {
        run: None,
        serves: false,
    };
    let mut exports: Vec<String> = vec![];
    for (name, item) in component.component_type().exports(&tier.engine) {
        let bare = name.split('@').next().unwrap_or(name);
        if bare == "wasi:http/incoming-handler" {
            entries.serves = true;
        }
        if bare.starts_with("pie:") && bare.ends_with("/run") {
            if let ComponentItem::ComponentInstance(_) = item.ty {
                let Some(interface) = component.get_export_index(None, name) else {
                    continue;
                };
                let Some((item, run)) = component.get_export(Some(&interface), "run") else {
                    bail!("the component exports `{name}`, but that has no function `run`");
                };
                if !is_run(&item) {
                    bail!(
                        "`run` in `{name}` has the wrong type; it must be func(input: string) -> result<string, string>"
                    );
                }
                entries.run = Some(run);
            }
        }
        // A component may export a million names, and clients read the error.
        if exports.len() < NAMED_EXPORTS {
            exports.push(name.chars().take(NAME_CHARS).collect());
        } else if exports.len() == NAMED_EXPORTS {
            exports.push("…".to_string());
        }
    }
    if entries.run.is_some() || entries.serves {
        return Ok(entries);
    }
    let seen = if exports.is_empty() {
        "nothing".to_string()
    } else {
        exports.join(", ")
    };
    bail!("the component has no entry point: it must export `pie:<package-name>/run` or `wasi:http/incoming-handler`, but it exports {seen}")
}

/// Whether the item has the type of an entry point.
fn is_run(item: &ComponentItem) -> bool {
    let ComponentItem::ComponentFunc(run) = item else {
        return false;
    };
    let takes: Vec<Type> = run.params().map(|(_, ty)| ty).collect();
    let gives: Vec<Type> = run.results().collect();
    let ([Type::String], [Type::Result(result)]) = (takes.as_slice(), gives.as_slice()) else {
        return false;
    };
    matches!(
        (result.ok(), result.err()),
        (Some(Type::String), Some(Type::String))
    )
}

/// Loads a component for the user `owner`, and blocks while it compiles. On failure, returns null and puts the reason into `error`. Without
/// `may_compile`, returns null and leaves `error` empty if the code is not in the cache. Calls `on_phase` on this thread.
#[no_mangle]
pub unsafe extern "C" fn pie_program_load(
    runtime: *const Runtime,
    component: Str,
    owner: Str,
    may_compile: bool,
    on_phase: extern "C" fn(*mut c_void, LoadPhase),
    phase_data: *mut c_void,
    error: *mut Out,
) -> *const Program {
    guarded(std::ptr::null(), || {
        Arc::increment_strong_count(runtime);
        let runtime = Arc::from_raw(runtime);
        let owner = owner.to_string_lossy();
        let loaded = Program::load(
            runtime,
            component.as_bytes(),
            &owner,
            may_compile,
            |phase| on_phase(phase_data, phase),
        );
        match loaded {
            Ok(program) => program.map_or(std::ptr::null(), Arc::into_raw),
            Err(e) => {
                pie_out_text(error, Str::of(&format!("{e:#}")));
                std::ptr::null()
            }
        }
    })
}

/// Whether the program runs on code of the quick compiler, and better code can be made.
#[no_mangle]
pub extern "C" fn pie_program_wants_optimising(program: &Program) -> bool {
    guarded(false, || program.wants_optimising())
}

/// Compiles the program's component again for the user `owner`, with the optimising compiler, and blocks meanwhile. If that
/// fails, the program keeps the code that it has.
#[no_mangle]
pub unsafe extern "C" fn pie_program_optimise(
    program: &Program,
    component: Str,
    owner: Str,
) -> bool {
    guarded(false, || {
        let made = program.optimise(component.as_bytes(), &owner.to_string_lossy());
        made.is_ok()
    })
}

/// Whether the program has a function `run`.
#[no_mangle]
pub extern "C" fn pie_program_runs(program: &Program) -> bool {
    guarded(false, || program.code().run.is_some())
}

/// Whether the program answers HTTP requests.
#[no_mangle]
pub extern "C" fn pie_program_serves(program: &Program) -> bool {
    guarded(false, || program.code().http.is_some())
}

/// Whether the program can use files. One that cannot needs no folders.
#[no_mangle]
pub extern "C" fn pie_program_uses_files(program: &Program) -> bool {
    guarded(true, || program.code().uses_files)
}

/// The bytes that the program's code and its data take in memory. They change when it is optimised.
#[no_mangle]
pub extern "C" fn pie_program_bytes(program: &Program) -> usize {
    guarded(0, || {
        program.code().bytes + program.lines.as_ref().map_or(0, Lines::bytes)
    })
}

/// Drops the handle. Running instances keep the code that they need.
#[no_mangle]
pub unsafe extern "C" fn pie_program_free(program: *const Program) {
    guarded((), || drop(Arc::from_raw(program)))
}
