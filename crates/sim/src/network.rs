//! The network between members: loses, delays, repeats and reorders, cuts links one way or both.
//! It decides the fate of one frame at a time; the world plans the deliveries.

use crate::operators::HOSTS_MAX;
use base::Rng;
use std::collections::BTreeSet;

pub struct Network {
    loss_per_million: u64,
    repeat_per_million: u64,
    straggle_per_million: u64,
    cut: BTreeSet<(usize, usize)>,
    /// When the last part of a stream was delivered on a link: streams keep their order.
    stream_clock: Vec<u64>,
    members: usize,
    calm: bool,
}

impl Network {
    pub fn new(rng: &mut Rng, members: usize) -> Network {
        let loss_per_million = *rng.pick(&[0, 2_000, 10_000, 50_000]);
        let repeat_per_million = *rng.pick(&[0, 5_000, 50_000]);
        let straggle_per_million = *rng.pick(&[0, 10_000]);
        Network {
            loss_per_million,
            repeat_per_million,
            straggle_per_million,
            cut: BTreeSet::new(),
            stream_clock: vec![0; HOSTS_MAX * HOSTS_MAX],
            members,
            calm: false,
        }
    }

    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cut.contains(&(from, to))
    }

    /// After how long a frame arrives: never, once, or twice.
    pub fn fate(&mut self, rng: &mut Rng) -> [Option<u64>; 2] {
        if self.calm {
            return [Some(rng.between(100, 2_000)), None];
        }
        if rng.chance(self.loss_per_million) {
            return [None, None];
        }
        let straggles = rng.chance(self.straggle_per_million);
        let delay = if straggles { rng.between(1_000, 1_500_000) } else { rng.between(150, 15_000) };
        let again = rng.chance(self.repeat_per_million).then(|| rng.between(150, 3_000_000));
        [Some(delay), again]
    }

    /// When a part of a stream arrives, behind the parts before it; `None` if the stream breaks here.
    pub fn stream_fate(&mut self, rng: &mut Rng, now: u64, link: (usize, usize)) -> Option<u64> {
        let broken = !self.calm && rng.chance(self.loss_per_million / 4);
        let clock = &mut self.stream_clock[link.0 * HOSTS_MAX + link.1];
        *clock = (*clock).max(now) + rng.between(100, 5_000);
        (!broken).then(|| *clock - now)
    }

    /// Splits the members in two by a random side for each.
    pub fn split(&mut self, rng: &mut Rng) {
        self.part(rng.next_u64());
    }

    /// Those with a bit in `sides` are cut off from the others.
    pub fn part(&mut self, sides: u64) {
        for from in 0..self.members {
            for to in 0..self.members {
                if (sides >> from) & 1 != (sides >> to) & 1 {
                    self.cut.insert((from, to));
                }
            }
        }
    }

    /// One direction of one link goes silent.
    pub fn cut_one_way(&mut self, rng: &mut Rng) {
        let from = rng.between(0, self.members as u64) as usize;
        let to = rng.between(0, self.members as u64) as usize;
        self.cut.insert((from, to));
    }

    pub fn isolate(&mut self, member: usize) {
        for other in 0..self.members {
            self.cut.insert((member, other));
            self.cut.insert((other, member));
        }
    }

    /// Another host is connected.
    pub fn grow(&mut self) {
        self.members += 1;
    }

    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// From now on nothing goes wrong.
    pub fn calm_down(&mut self) {
        self.heal();
        self.calm = true;
    }
}
