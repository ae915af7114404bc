//! Walks the pages of a scan, one request for each.

use super::Rest;
use super::refusal::Refusal;
use base::Code;
use bytes::Bytes;
use mesh::{PARTITIONS, Scan, ScanPage};
use std::time::Duration;

pub struct Pages {
    /// None at the end.
    next: Option<Scan>,
    /// Entries that are still wanted; none for all.
    left: Option<u64>,
    timeout: Option<Duration>,
}

impl Pages {
    pub fn of(scan: Scan, timeout: Option<Duration>) -> Pages {
        Pages { next: Some(scan), left: None, timeout }
    }

    /// Ends after so many entries.
    pub fn up_to(self, left: Option<u64>) -> Pages {
        Pages { left, ..self }
    }

    /// Whether all was asked for.
    pub fn is_over(&self) -> bool {
        self.next.is_none()
    }

    pub async fn next(&mut self, rest: &Rest) -> Result<Option<ScanPage>, Refusal> {
        let Some(mut scan) = self.next.clone() else { return Ok(None) };
        if let Some(left) = self.left {
            scan.limit = scan.limit.min(usize::try_from(left).unwrap_or(usize::MAX));
        }
        let page = rest.get(scan.clone(), self.timeout).await?;
        check_answered(&page)?;
        if let Some(left) = &mut self.left {
            *left -= (page.len() as u64).min(*left);
        }
        let goes_on = self.left != Some(0);
        self.next = page.next.clone().filter(|_| goes_on).map(|place| behind(scan, place));
        Ok(Some(page))
    }
}

/// The scan of the next page.
pub fn behind(scan: Scan, place: Bytes) -> Scan {
    if scan.view.reverse { Scan { end: Some(place), ..scan } } else { Scan { start: place, ..scan } }
}

/// Refuses a page on which no partition has answered.
fn check_answered(page: &ScanPage) -> Result<(), Refusal> {
    if usize::from(page.n_missing) < PARTITIONS {
        return Ok(());
    }
    let message = "no partition had enough replicas that answered; try again, or ask for fewer with r=";
    let refusal = Refusal::new(Code::TooFewReplicas, message).with("status", "unavailable");
    Err(refusal.with("missing_partitions", page.n_missing))
}
