//! Markers in a target: a process says that it writes a backup, or prunes, and renews that while it does. One that was not renewed
//! for an hour was left behind by a process that is gone, and hinders none. A backup and a pruning each put their marker
//! first and then look for the other's, so of two that begin together at least one sees the other.

use crate::error::Error;
use crate::manifest::BackupId;
use crate::target::Target;
use std::time::{SystemTime, UNIX_EPOCH};

/// A marker that is older was left behind. Clocks of two machines may differ by a good part of it.
const LIFE_MS: u64 = 60 * 60 * 1_000;
const RENEW_AFTER_MS: u64 = 60 * 1_000;

pub(crate) struct Marker<'a> {
    target: &'a Target,
    path: String,
    renewed_ms: u64,
}

impl<'a> Marker<'a> {
    pub async fn begin(target: &'a Target, folder: &str, id: &BackupId) -> Result<Marker<'a>, Error> {
        let mut marker = Marker { target, path: format!("{folder}/{id}"), renewed_ms: 0 };
        marker.write(now_ms()).await?;
        Ok(marker)
    }

    /// Refused after it stood still for so long that others take it for left behind.
    pub async fn renew(&mut self) -> Result<(), Error> {
        let now_ms = now_ms();
        let age_ms = now_ms.saturating_sub(self.renewed_ms);
        if age_ms >= LIFE_MS {
            return Err(Error::StoodStill { marker: self.path.clone() });
        }
        if age_ms >= RENEW_AFTER_MS {
            self.write(now_ms).await?;
        }
        Ok(())
    }

    pub async fn end(self) -> Result<(), Error> {
        self.target.delete(&self.path).await
    }

    async fn write(&mut self, now_ms: u64) -> Result<(), Error> {
        self.target.put(&self.path, now_ms.to_string().into_bytes()).await?;
        self.renewed_ms = now_ms;
        Ok(())
    }
}

/// The markers of a folder: of a process that works, and those that were left behind.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    pub working: Option<String>,
    pub left_behind: Vec<String>,
}

impl Markers {
    pub async fn read(target: &Target, folder: &str) -> Result<Markers, Error> {
        let mut markers = Markers::default();
        for kept in target.list(folder).await? {
            // It may have ended since the folder was listed.
            let Some(text) = target.get(&kept.path).await? else { continue };
            if is_left_behind(&text, now_ms()) {
                markers.left_behind.push(kept.path);
            } else {
                markers.working = Some(kept.path);
            }
        }
        Ok(markers)
    }
}

/// What is no time at all is not taken for old.
fn is_left_behind(text: &[u8], now_ms: u64) -> bool {
    let renewed_ms = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse::<u64>().ok());
    renewed_ms.is_some_and(|renewed_ms| now_ms.saturating_sub(renewed_ms) >= LIFE_MS)
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_left_behind_an_hour_after_it_was_renewed() {
        let at = |renewed_ms: u64, now_ms| is_left_behind(renewed_ms.to_string().as_bytes(), now_ms);
        assert!(!at(5_000, 5_000 + LIFE_MS - 1) && at(5_000, 5_000 + LIFE_MS));
        assert!(!at(LIFE_MS, 0), "a clock that is ahead");
        assert!(!is_left_behind(b"", u64::MAX) && !is_left_behind(b"x", u64::MAX));
    }

    #[tokio::test]
    async fn a_process_that_stood_still_does_not_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::parse(dir.path().to_str().unwrap()).unwrap();
        let mut marker = Marker::begin(&target, "running", &BackupId::at_ms(1)).await.unwrap();
        marker.renew().await.unwrap();
        marker.renewed_ms -= LIFE_MS;
        assert!(matches!(marker.renew().await, Err(Error::StoodStill { .. })));
        marker.renewed_ms = now_ms() - RENEW_AFTER_MS;
        marker.renew().await.unwrap();
        assert!(marker.renewed_ms > now_ms() - RENEW_AFTER_MS / 2, "it was written again");
        marker.end().await.unwrap();
        assert!(Markers::read(&target, "running").await.unwrap().working.is_none());
    }
}
