//! Generates the code of the host functions from `wit/`, and writes the C++ headers of this crate.
//!
//! The Rust files go to cargo's output folder. When PIE_BRIDGE_HEADER is set, the headers go to the folder that it names:
//! `pie_bridge.h` (this crate's C ABI), `pie_host_api.h` (the host functions that C++ implements) and `pie_host_table.h`.
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=../wit");
    println!("cargo:rerun-if-env-changed=PIE_BRIDGE_HEADER");
    let made = pie_hostgen::generate(Path::new("../wit")).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1)
    });
    let out_dir = std::env::var("OUT_DIR").expect("cargo sets it");
    let table = Path::new(&out_dir).join("host_table.rs");
    write(&table, &made.table_rs);
    write(&Path::new(&out_dir).join("host_calls.rs"), &made.calls_rs);

    let Ok(header) = std::env::var("PIE_BRIDGE_HEADER") else {
        return;
    };
    let folder = Path::new(&header).parent().expect("a path of a file");
    write(&folder.join("pie_host_api.h"), &made.api_h);
    write(&folder.join("pie_host_table.h"), &made.table_h);
    let crate_dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let config = cbindgen::Config::from_root_or_default(&crate_dir);
    cbindgen::Builder::new()
        .with_config(config)
        .with_crate(crate_dir)
        .with_src(table) // cbindgen does not follow include!
        .generate()
        .expect("the ABI is expressible in C")
        .write_to_file(header);
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
