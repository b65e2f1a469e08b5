//! Compilation of a component in a process of its own, which has limits of time and memory and can be killed.
//!
//! A component comes from a stranger, and can be made so that compilers need hours or all memory for it. The process is this
//! program, run again with an internal command. It reads the component from its standard input and writes the code to its
//! standard output; both are files in memory, so neither side waits for the other. It confines itself before it reads: the
//! parent starts it without forking, because a fork would make a large process slow.
use super::runtime::{config_of, Tier};
use crate::abi::guarded;
use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::FromRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Mutex;
use wasmtime::{bail, format_err, Engine, Result};

/// Limits on one compilation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CompileLimits {
    /// Processor time of all its threads together. The wall-clock limit is four times as long.
    pub cpu_secs: u32,
    pub memory_bytes: u64,
}

pub struct Compiler {
    /// The program that has the internal command. None: components are compiled in this process, without limits.
    program: Option<PathBuf>,
    limits: CompileLimits,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    children: Vec<u32>,
    stopped: bool,
}

/// The name of the internal command.
const COMMAND: &str = "compile-component";
/// The most bytes that are kept of the compiler's message about a component.
const MOST_ERROR_BYTES: u64 = 4 << 10;
const CLOCK_PER_CPU: u32 = 4;
/// Guests and devices run before compilers.
const NICENESS: libc::c_int = 10;

impl Compiler {
    pub fn new(program: Option<PathBuf>, limits: CompileLimits) -> Compiler {
        Compiler {
            program,
            limits,
            running: Mutex::default(),
        }
    }

    /// Compiles with a tier's compiler. The file has no name and holds the code, to be read from its beginning.
    pub fn compile(&self, tier: &Tier, component: &[u8]) -> Result<File> {
        let mut code = memory_file(c"pie-code")?;
        match &self.program {
            Some(program) => self.run(program, tier, component, &code)?,
            None => {
                let bytes = tier.engine.precompile_component(component);
                code.write_all(&bytes.map_err(invalid)?)?;
            }
        }
        code.rewind()?;
        Ok(code)
    }

    fn run(&self, program: &PathBuf, tier: &Tier, component: &[u8], code: &File) -> Result<()> {
        let mut source = memory_file(c"pie-component")?;
        source.write_all(component)?;
        source.rewind()?;
        let mut errors = memory_file(c"pie-compiler-errors")?;
        let mut command = Command::new(program);
        command
            .arg(COMMAND)
            .arg(if tier.is_quick { "quick" } else { "optimised" })
            .arg(self.limits.cpu_secs.to_string())
            .arg(self.limits.memory_bytes.to_string())
            .arg(std::process::id().to_string())
            .env("RAYON_NUM_THREADS", threads().to_string())
            .stdin(source)
            .stdout(code.try_clone()?)
            .stderr(errors.try_clone()?)
            .process_group(0); // Ctrl-C is for the parent, which decides
        let mut child = self.start(&mut command)?;
        wait_for_end(&child);
        // From here on `stop` must not signal the number of the child, which may become that of another process.
        self.forget(&child);
        let status = child.wait()?;
        if status.success() {
            return Ok(());
        }
        let mut said = vec![];
        errors.rewind()?;
        errors.take(MOST_ERROR_BYTES).read_to_end(&mut said)?;
        Err(self.why(status, String::from_utf8_lossy(&said).trim()))
    }

    fn start(&self, command: &mut Command) -> Result<Child> {
        let mut running = self.running.lock().unwrap();
        if running.stopped {
            bail!("the engine stops: the component was not compiled");
        }
        let child = command
            .spawn()
            .map_err(|e| format_err!("cannot start the compiler: {e}"))?;
        running.children.push(child.id());
        Ok(child)
    }

    fn forget(&self, child: &Child) {
        let mut running = self.running.lock().unwrap();
        running.children.retain(|id| *id != child.id());
    }

    fn why(&self, status: ExitStatus, said: &str) -> wasmtime::Error {
        let CompileLimits {
            cpu_secs,
            memory_bytes,
        } = self.limits;
        if self.running.lock().unwrap().stopped {
            return format_err!("the engine stops: the component was not compiled");
        }
        let out_of_memory = ["memory allocation of", "os error 12"]
            .iter()
            .any(|sign| said.contains(sign));
        match status.signal() {
            Some(libc::SIGXCPU | libc::SIGALRM) => format_err!(
                "compiling the component takes more than {cpu_secs} s of processor time; the limit is runtime.compile_secs"
            ),
            Some(libc::SIGXFSZ) => too_much_memory(memory_bytes),
            _ if out_of_memory => too_much_memory(memory_bytes),
            Some(signal) => format_err!("the compiler was stopped by signal {signal}: {said}"),
            None if status.code() == Some(REFUSED) => format_err!("{said}"),
            None => format_err!("the compiler failed: {said}"),
        }
    }

    /// Kills the compilers that run, and lets no other begin.
    pub fn stop(&self) {
        let mut running = self.running.lock().unwrap();
        running.stopped = true;
        for child in &running.children {
            unsafe { libc::kill(*child as libc::pid_t, libc::SIGKILL) };
        }
    }
}

/// A compiler uses few threads, because each of them takes memory, and others compile too.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(4))
}

fn too_much_memory(memory_bytes: u64) -> wasmtime::Error {
    let mebibytes = memory_bytes >> 20;
    format_err!("compiling the component takes more than {mebibytes} MiB of memory; the limit is runtime.compile_memory_mb")
}

fn invalid(error: wasmtime::Error) -> wasmtime::Error {
    format_err!("the file is not a valid component: {error:#}")
}

/// Waits until the child has ended, and leaves its number taken.
fn wait_for_end(child: &Child) {
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOWAIT;
        while libc::waitid(libc::P_PID, child.id(), &mut info, flags) != 0
            && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
        {}
    }
}

/// A file without a name, in memory.
fn memory_file(name: &CStr) -> Result<File> {
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        bail!("cannot make a file in memory for the compiler: {error}");
    }
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// The exit code of a compiler that refuses the component.
const REFUSED: i32 = 1;
const FAILED: i32 = 2;

/// The whole work of the internal command. Returns the exit code of the process.
#[no_mangle]
pub extern "C" fn pie_compile_main(quick: bool, limits: CompileLimits, parent: u32) -> i32 {
    guarded(FAILED, || {
        let made = confine(&limits, parent).and_then(|()| compile_input(quick));
        match made {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("{error:#}");
                REFUSED
            }
        }
    })
}

fn compile_input(quick: bool) -> Result<()> {
    let (mut input, mut output) = unsafe { (File::from_raw_fd(0), File::from_raw_fd(1)) };
    let mut component = vec![];
    input.read_to_end(&mut component)?;
    let engine = Engine::new(&config_of(quick))?;
    let code = engine.precompile_component(&component).map_err(invalid)?;
    output.write_all(&code)?;
    Ok(())
}

/// Limits this process, before it has read anything that a stranger wrote.
fn confine(limits: &CompileLimits, parent: u32) -> Result<()> {
    let memory = data_bytes().saturating_add(limits.memory_bytes);
    let cpu = u64::from(limits.cpu_secs);
    unsafe {
        // It ends with its parent, which may have ended already.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() as u32 != parent {
            bail!("the process that wanted the code has ended");
        }
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        // Sockets and files of the parent that were not closed by themselves.
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
        libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS);
        libc::alarm(limits.cpu_secs.saturating_mul(CLOCK_PER_CPU));
    }
    // SIGXCPU at the first number says why the process ends; at the second one it is killed.
    limit(libc::RLIMIT_CPU, cpu, cpu.saturating_add(1))?;
    limit(libc::RLIMIT_DATA, memory, memory)?;
    limit(libc::RLIMIT_FSIZE, limits.memory_bytes, limits.memory_bytes)?;
    limit(libc::RLIMIT_CORE, 0, 0)?;
    // Where memory is short after all, the system ends compilers before it ends servers.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}

fn limit(resource: libc::__rlimit_resource_t, soft: u64, hard: u64) -> Result<()> {
    let limits = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    if unsafe { libc::setrlimit(resource, &limits) } != 0 {
        let error = std::io::Error::last_os_error();
        bail!("cannot limit the compiler: {error}");
    }
    Ok(())
}

/// The writable memory that this process has reserved. It is large under a sanitizer.
fn data_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmData:"));
    let kibibytes = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) << 10
}
