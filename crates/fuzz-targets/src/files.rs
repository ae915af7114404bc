//! Files of a member that were damaged: a start from them comes back, or says why it cannot, and never panics.

use crate::driver::Driver;
use crate::input::Input;
use crate::member;
use base::NodeId;
use disk::{Disk, SimDisk};
use std::sync::LazyLock;

const ME: NodeId = NodeId(1);

/// The files of a member that has led for a while.
static FILES: LazyLock<SimDisk> = LazyLock::new(|| {
    let disk = SimDisk::new(7);
    let mut driver = Driver::open(&disk, ME, &[ME]).expect("an empty disk can be opened");
    (0..60).for_each(|_| driver.tick());
    for nth in 0..40u8 {
        driver.propose(member::put(vec![nth; 60].into()));
        driver.tick();
    }
    drop(driver);
    disk.kill();
    disk
});

pub fn log(bytes: &[u8]) {
    damage(bytes, |name| !name.contains("store"));
}

/// Pages of the store. What the storage engine panics on is an error of the start (`disk/src/guard.rs`).
pub fn store(bytes: &[u8]) {
    damage(bytes, |name| name.contains("store"));
}

fn damage(bytes: &[u8], is_meant: impl Fn(&str) -> bool) {
    let disk = FILES.fork();
    let mut input = Input::new(bytes);
    let mut names: Vec<String> = disk.list().expect("a disk in memory can be listed");
    names.retain(|name| is_meant(name));
    names.sort();
    while !input.is_empty() {
        let Some(name) = names.get(input.choice(names.len())) else { return };
        let (at, how) = (input.number(&[]), input.choice(8));
        let Some(len) = disk.open(name).and_then(|file| file.len()).ok().filter(|len| *len > 0) else {
            continue;
        };
        match how {
            0 => disk.remove_durably(name),
            1 => disk.truncate_durably(name, at % len),
            _ => disk.flip_bit(name, at % len),
        }
    }
    if let Ok(mut driver) = Driver::open(&disk, ME, &[ME]) {
        (0..30).for_each(|_| driver.tick());
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    (0..32u8).map(|nth| vec![nth % 4, 200, nth, nth / 4]).collect()
}
