//! Compiles the `.proto` files without `protoc`: `protox` reads them, tonic's generator writes the Rust.

use prost::Message;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new("proto");
    println!("cargo:rerun-if-changed=proto");
    let etcd = [
        "rpc.proto",
        "cluster.proto",
        "watch.proto",
        "lease.proto",
        "auth_service.proto",
        "v3lock.proto",
        "v3election.proto",
    ];
    let files = etcd
        .into_iter()
        .chain([
            "health.proto",
            "lock.proto",
            "lease_events.proto",
            "store.proto",
            "data_auth.proto",
            "inspect.proto",
            "backup.proto",
            "data.proto",
        ])
        .map(|file| root.join(file));
    let descriptors = protox::compile(files, [root])?;
    // The same descriptors for code that handles messages without knowing their types.
    let out_dir = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    std::fs::write(out_dir.join("descriptors.bin"), descriptors.encode_to_vec())?;
    // A message knows its full name.
    let mut with_names = tonic_prost_build::Config::new();
    with_names.enable_type_names();
    tonic_prost_build::configure()
        .build_client(std::env::var_os("CARGO_FEATURE_CLIENT").is_some())
        .codec_path("crate::codec::Codec")
        // Keys and values stay slices of the frame they came in.
        .bytes(".")
        .compile_fds_with_config(descriptors, with_names)?;
    Ok(())
}
