//! Writes the C header of this crate, so that the C++ side cannot drift from it.
fn main() {
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=../wit");
    println!("cargo:rerun-if-env-changed=PIE_BRIDGE_HEADER");
    let Ok(header) = std::env::var("PIE_BRIDGE_HEADER") else {
        return;
    };
    let crate_dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    cbindgen::generate(crate_dir)
        .expect("the ABI is expressible in C")
        .write_to_file(header);
}
