//! The same random requests to etcd and to us: every answer, every refusal and every event must be the same.
//! It runs when the variable `ETCD` names etcd's binary; `cargo xtask diff-etcd` asks far more.

use crate::tour::block_on;
use differ::round;
use differ::server::Server;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// One of four seeds is for a round with users.
const SEEDS: u64 = 4;
const OPS_PER_SEED: u64 = 1_500;

/// `DIFFER_SEED`, `DIFFER_SEEDS` and `DIFFER_OPS` ask for other rounds, and more.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn random_requests_are_answered_as_etcd_answers_them() {
    let Ok(binary) = std::env::var("ETCD") else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED random_requests_are_answered_as_etcd_answers_them: set ETCD to a binary to run it"
        );
        return;
    };
    let first = number("DIFFER_SEED", 0);
    for seed in first..first + number("DIFFER_SEEDS", SEEDS) {
        let theirs = Server::etcd(Path::new(&binary)).unwrap();
        let ours = Server::althing(Path::new(env!("CARGO_BIN_EXE_althing"))).unwrap();
        let asked = AtomicU64::new(0);
        let outcome = block_on(round::run(
            &theirs.endpoint,
            &ours.endpoint,
            seed,
            number("DIFFER_OPS", OPS_PER_SEED),
            &asked,
        ));
        if let Err(difference) = outcome {
            panic!("{difference}");
        }
    }
}
