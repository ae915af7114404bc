//! One counter that all clients add to. Every addition has a request id and is sent again under it until a node
//! acknowledges it, so it counts once; one that was given up counts once or not at all.

#[derive(Debug, Default)]
pub struct CounterHistory {
    /// By number: whether it was acknowledged.
    additions: Vec<bool>,
}

impl CounterHistory {
    pub fn add(&mut self) -> usize {
        self.additions.push(false);
        self.additions.len() - 1
    }

    pub fn acknowledge(&mut self, number: usize) {
        self.additions[number] = true;
    }

    pub fn judge(&self, shown: i128) -> Result<(), String> {
        let least = self.additions.iter().filter(|acknowledged| **acknowledged).count() as i128;
        let most = self.additions.len() as i128;
        if (least..=most).contains(&shown) {
            Ok(())
        } else {
            Err(format!("counter: {shown} is counted, not {least} to {most}"))
        }
    }
}
