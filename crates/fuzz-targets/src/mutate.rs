//! Mutations of inputs for runs without a coverage-guided fuzzer: the same seed gives the same inputs.

use base::Rng;

const LENGTH_MAX: usize = 4_096;

/// Another input made of these: changed, cut, repeated, or joined with a second one.
pub fn mutate(rng: &mut Rng, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = if inputs.is_empty() { Vec::new() } else { rng.pick(inputs).clone() };
    if !inputs.is_empty() && rng.chance(250_000) {
        bytes.extend(rng.pick(inputs).iter());
    }
    for _ in 0..rng.between(1, 8) {
        change(rng, &mut bytes);
    }
    bytes.truncate(LENGTH_MAX);
    bytes
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let at = rng.between(0, bytes.len() as u64 + 1) as usize;
    match rng.between(0, 6) {
        0 | 1 if at < bytes.len() => bytes[at] = rng.next_u64() as u8,
        2 if at < bytes.len() => bytes[at] ^= 1 << rng.between(0, 8),
        3 if at < bytes.len() => {
            bytes.remove(at);
        }
        4 if at < bytes.len() => {
            let piece = bytes[at..bytes.len().min(at + rng.between(1, 24) as usize)].to_vec();
            let to = rng.between(0, bytes.len() as u64 + 1) as usize;
            bytes.splice(to..to, piece);
        }
        _ => {
            let more = rng.between(1, 12);
            let fresh: Vec<u8> = (0..more).map(|_| rng.next_u64() as u8).collect();
            bytes.splice(at..at, fresh);
        }
    }
}
