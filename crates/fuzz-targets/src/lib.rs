//! What a fuzzer feeds with bytes. Each target is one function that takes any bytes and must return.
//! A decoder target hands the bytes to the decoder as they are. A machine target reads a sequence of steps from them and
//! steps a real machine, so that the fields of a forged frame meet the state on which they would do harm.

mod driver;
mod frames;
mod input;
mod member;
pub mod mutate;

pub use input::Input;

pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Inputs to begin with: lawful ones, from which mutations go deep.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

pub const TARGETS: &[Target] =
    &[Target { name: "peer-frames", run: member::run_frames, seeds: member::frame_seeds }];

pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
