//! Every target takes its seeds, its corpus and a few mutations of both, on every test run.

use base::Rng;
use base::mutant::plant;
use fuzz_targets::{TARGETS, mutate, target};
use std::fs;
use std::path::{Path, PathBuf};

const MUTATIONS: usize = 300;
const MUTATIONS_FOR_A_BUG: usize = 40_000;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let Ok(files) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a folder can be listed").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a file of the corpus can be read")).collect()
}

/// `FUZZ_TARGET`, `FUZZ_SEED` and `FUZZ_RUNS` choose one target and another, longer run.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_target_takes_its_corpus_and_mutations_of_it() {
    let chosen = std::env::var("FUZZ_TARGET").ok();
    let seed = setting("FUZZ_SEED").unwrap_or(1);
    let runs = setting("FUZZ_RUNS").map_or(MUTATIONS, |runs| runs as usize);
    for target in TARGETS.iter().filter(|target| chosen.as_ref().is_none_or(|name| name == target.name)) {
        let mut inputs = (target.seeds)();
        inputs.extend(corpus(target.name));
        inputs.iter().for_each(|input| (target.run)(input));
        let mut rng = Rng::new(seed);
        for _ in 0..runs {
            let input = mutate::mutate(&mut rng, &inputs);
            // The input of a failure stands beside its panic.
            let shown: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
            let caught = std::panic::catch_unwind(|| (target.run)(&input));
            assert!(caught.is_ok(), "{} fails on {shown}", target.name);
        }
    }
}

/// Mutations reach deep enough: they come across a bug that is planted.
#[test]
fn mutations_find_a_planted_bug() {
    let target = target("peer-frames").expect("it is in the table");
    let mut inputs = (target.seeds)();
    inputs.extend(corpus(target.name));
    let mut rng = Rng::new(setting("FUZZ_SEED").unwrap_or(1));
    plant(Some(raft::Mutant::AppendNotValidated.bug()));
    let found = (0..MUTATIONS_FOR_A_BUG).find_map(|_| {
        let input = mutate::mutate(&mut rng, &inputs);
        std::panic::catch_unwind(|| (target.run)(&input)).is_err().then_some(input)
    });
    plant(None);
    let found = found.expect("an append beyond the log would end the process");
    (target.run)(&found);
}
