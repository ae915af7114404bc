//! What a small volume leaves of the settings that take space.
//! Segments of the log and batches for the store are as large as they are configured, unless the volume is so small that the
//! space that is kept free for them would leave little of it for data.

use crate::config::Config;

/// A segment of the log takes at most one part in so many of the volume, and a batch for the store half of that.
const SEGMENT_PARTS: u64 = 32;
/// As the settings have them at least.
const SEGMENT_BYTES_MIN: u64 = 1024 * 1024;

/// The configuration for a volume of this size; zero stands for a size that the file system does not tell.
pub fn fit(mut config: Config, volume_bytes: u64) -> Config {
    let segment_bytes = segment_bytes_max(volume_bytes);
    let flush_bytes = usize::try_from(segment_bytes / 2).unwrap_or(usize::MAX);
    if segment_bytes < config.wal_segment_bytes || flush_bytes < config.flush_bytes {
        config.wal_segment_bytes = config.wal_segment_bytes.min(segment_bytes);
        config.flush_bytes = config.flush_bytes.min(flush_bytes);
        tracing::info!(
            volume_bytes,
            wal_segment_bytes = config.wal_segment_bytes,
            flush_bytes = config.flush_bytes,
            "the volume is small: segments of the log and batches for the store are smaller than configured"
        );
    }
    config
}

fn segment_bytes_max(volume_bytes: u64) -> u64 {
    if volume_bytes == 0 { u64::MAX } else { (volume_bytes / SEGMENT_PARTS).max(SEGMENT_BYTES_MIN) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn segments_are_smaller_on_small_volumes_alone() {
        assert_eq!(segment_bytes_max(0), u64::MAX);
        assert_eq!(segment_bytes_max(512 * MIB), 16 * MIB, "the default");
        assert_eq!(segment_bytes_max(128 * MIB), 4 * MIB);
        assert_eq!(segment_bytes_max(MIB), MIB);
    }
}
