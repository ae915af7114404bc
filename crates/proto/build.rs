//! Compiles the `.proto` files without `protoc`: `protox` reads them, tonic's generator writes the Rust.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new("proto");
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile([root.join("rpc.proto"), root.join("lease.proto")], [root])?;
    tonic_prost_build::configure()
        .build_client(std::env::var_os("CARGO_FEATURE_CLIENT").is_some())
        .codec_path("crate::codec::Codec")
        // Keys and values stay slices of the frame they came in.
        .bytes(".")
        .compile_fds(descriptors)?;
    Ok(())
}
