//! What a fuzzer feeds with bytes. Each target is one function that takes any bytes and must return.
//! A decoder target hands the bytes to the decoder as they are. A machine target reads a sequence of steps from them and
//! steps a real machine, so that the fields of a forged frame meet the state on which they would do harm.

mod backups;
mod clients;
mod decoders;
mod driver;
mod files;
pub mod forged_mesh;
pub mod frames;
mod input;
mod member;
mod mesh_node;
pub mod mutate;
mod state;
mod wire;

pub use input::Input;
pub use member::put;

pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Inputs to begin with: lawful ones, from which mutations go deep.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

const fn machine(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, seeds }
}

const fn decoder(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run, seeds: Vec::new }
}

pub const TARGETS: &[Target] = &[
    machine("peer-frames", member::run_frames, member::frame_seeds),
    machine("mesh-node", mesh_node::run, mesh_node::seeds),
    machine("log-files", files::log, files::seeds),
    machine("store-pages", files::store, files::seeds),
    machine("backup-pages", backups::bbolt, backups::seeds),
    machine("store-rows", state::rows, state::row_seeds),
    machine("commands", state::commands, state::command_seeds),
    machine("http1-heads", clients::http1_heads, clients::head_seeds),
    machine("websocket", clients::websocket, clients::websocket_seeds),
    machine("grpc-messages", clients::grpc_messages, clients::message_seeds),
    machine("token", clients::token, clients::token_seeds),
    machine("certificate", clients::certificate, clients::certificate_seeds),
    machine("merge-script", clients::merge_script, clients::script_seeds),
    machine("toml", clients::toml, clients::toml_seeds),
    machine("etcd-flags", clients::etcd_flags, clients::flag_seeds),
    decoder("http2", wire::http2),
    decoder("hpack", wire::hpack),
    decoder("frame", decoders::frame),
    decoder("raft-record", decoders::raft_record),
    decoder("batch", decoders::batch),
    decoder("command", decoders::command),
    decoder("members", decoders::members),
    decoder("mesh-frame", decoders::mesh_frame),
    decoder("record", decoders::record),
    decoder("two-records", decoders::two_records),
    decoder("context", decoders::context),
    decoder("session", decoders::session),
    decoder("documents", decoders::documents),
    decoder("region-frames", decoders::region_frames),
    decoder("json-merge", decoders::json_merge),
    decoder("snapshot-rows", decoders::snapshot_rows),
    decoder("mesh-batch", decoders::mesh_batch),
];

pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
