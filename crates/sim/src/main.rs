fn main() {
    let from: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let to: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let mutant = std::env::args().nth(3).map(|n| base::mutant::Mutant::from_name(&n).unwrap());
    let t = std::time::Instant::now();
    let mut tally = sim::tally::Tally::default();
    for seed in from..to {
        let r = sim::run::run(seed, mutant);
        tally.add(&r.tally);
        if let Some(v) = r.violation { println!("seed {seed} {:?}: {}", v.checker, v.what.chars().take(600).collect::<String>()); if mutant.is_some() {break} }
        if to - from < 4 { println!("trace {:016x}", r.trace); }
    }
    let w = t.elapsed().as_secs_f64();
    println!("{tally:?} {w:.2}s, {:.1} sim-h/min", (to-from) as f64 * sim::run::SEED_US as f64 / 3.6e9 / (w/60.0));
}
