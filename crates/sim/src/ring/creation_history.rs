//! Keys that clients create under request ids and delete. A creation that a client was told is refused is shown to no client,
//! before or after, through whichever node its request was sent earlier.

use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub struct CreationHistory {
    n_values: u64,
    refused: BTreeSet<u64>,
    shown: BTreeSet<u64>,
}

impl CreationHistory {
    /// The value of a new creation.
    pub fn add(&mut self) -> u64 {
        self.n_values += 1;
        self.n_values
    }

    /// It was read, or acknowledged.
    pub fn show(&mut self, value: u64) -> Result<(), String> {
        self.shown.insert(value);
        self.judge(value)
    }

    pub fn refuse(&mut self, value: u64) -> Result<(), String> {
        self.refused.insert(value);
        self.judge(value)
    }

    fn judge(&self, value: u64) -> Result<(), String> {
        let is_both = self.refused.contains(&value) && self.shown.contains(&value);
        if is_both { Err(format!("creations: {value} was refused and carried out")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_shown_neither_before_nor_after() {
        let mut creations = CreationHistory::default();
        let (first, second, third) = (creations.add(), creations.add(), creations.add());
        assert_eq!(creations.show(first), Ok(()));
        assert_eq!(creations.refuse(second), Ok(()));
        assert_eq!(creations.show(third), Ok(()));
        assert!(creations.show(second).is_err());
        assert!(creations.refuse(first).is_err());
    }
}
