//! A log file that begins again when it is full, as etcd's does: the full one gets the time in its name, and old ones are
//! removed by number and age.

use base::date::UtcTime;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MEBIBYTE: u64 = 1 << 20;
const DAY: Duration = Duration::from_secs(86_400);
/// Of etcd's, too.
const SIZE_DEFAULT: u64 = 100;

/// When a file is full, and which full ones stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotationRules {
    pub size_max: u64,
    /// Zero keeps all.
    pub backups_max: usize,
    /// Zero keeps them for ever.
    pub age_max: Duration,
}

impl RotationRules {
    /// From etcd's JSON; sizes are in MiB, ages in days.
    pub fn parse(json: &str) -> Result<RotationRules, String> {
        let given: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let fields = given.as_object().ok_or("it is no object of JSON")?;
        let number = |name: &str, default| match fields.get(name) {
            None => Ok(default),
            Some(value) => value.as_u64().ok_or(format!("{name} is no number of 0 or more")),
        };
        for name in ["compress", "localtime"] {
            if fields.get(name).is_some_and(|value| *value != Value::Bool(false)) {
                return Err(format!(
                    "{name} can only be false: full files are named in UTC, and not compressed"
                ));
            }
        }
        let size = match number("maxsize", SIZE_DEFAULT)? {
            0 => SIZE_DEFAULT,
            size => size,
        };
        let days = u32::try_from(number("maxage", 0)?).map_err(|_| "maxage is too large")?;
        Ok(RotationRules {
            size_max: size.saturating_mul(MEBIBYTE),
            backups_max: usize::try_from(number("maxbackups", 0)?).unwrap_or(usize::MAX),
            age_max: DAY.saturating_mul(days),
        })
    }
}

pub struct RotatedFile {
    path: PathBuf,
    rules: RotationRules,
    file: File,
    size: u64,
}

impl RotatedFile {
    pub fn open(path: &Path, rules: &RotationRules) -> io::Result<RotatedFile> {
        let file = File::options().create(true).append(true).open(path)?;
        let size = file.metadata()?.len();
        Ok(RotatedFile { path: path.to_owned(), rules: rules.clone(), file, size })
    }

    fn rotate(&mut self) -> io::Result<()> {
        let now = SystemTime::now();
        std::fs::rename(&self.path, full_path(&self.path, now))?;
        *self = RotatedFile::open(&self.path, &self.rules)?;
        self.remove_old(now)
    }

    fn remove_old(&self, now: SystemTime) -> io::Result<()> {
        let (stem, extension) = parts(&self.path);
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut full = Vec::new();
        for entry in std::fs::read_dir(directory.unwrap_or(Path::new(".")))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let moment =
                name.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&extension));
            if moment.is_some_and(is_moment) {
                full.push((name, entry));
            }
        }
        // Names sort by time; the newest first.
        full.sort_by(|(a, _), (b, _)| b.cmp(a));
        for (number, (_, entry)) in full.iter().enumerate() {
            let age = entry.metadata()?.modified().ok().and_then(|at| now.duration_since(at).ok());
            let is_old = !self.rules.age_max.is_zero() && age.is_some_and(|age| age > self.rules.age_max);
            if is_old || self.rules.backups_max > 0 && number >= self.rules.backups_max {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl Write for RotatedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.size > 0 && self.size + bytes.len() as u64 > self.rules.size_max {
            // A file that cannot be renamed goes on to grow: lines matter more.
            let _ = self.rotate();
        }
        let written = self.file.write(bytes)?;
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The name without its extension, and that with its dot.
fn parts(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let extension = text(path.extension()).map(|extension| format!(".{extension}")).unwrap_or_default();
    (text(path.file_stem()).unwrap_or_default(), extension)
}

/// `etcd.log` becomes `etcd-2026-01-31T12-00-00.250.log`.
fn full_path(path: &Path, now: SystemTime) -> PathBuf {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let second = UtcTime::of(since.as_secs()).to_string().replace(':', "-");
    let (stem, extension) = parts(path);
    path.with_file_name(format!("{stem}-{second}.{:03}{extension}", since.subsec_millis()))
}

fn is_moment(text: &str) -> bool {
    let shape = |letter: char| if letter.is_ascii_digit() { '0' } else { letter };
    text.chars().map(shape).eq("0000-00-00T00-00-00.000".chars())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_etcd_writes_them() {
        let etcds =
            r#"{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false}"#;
        let keeps_all = RotationRules { size_max: 100 * MEBIBYTE, backups_max: 0, age_max: Duration::ZERO };
        assert_eq!(RotationRules::parse(etcds), Ok(keeps_all.clone()));
        assert_eq!(RotationRules::parse("{}"), Ok(keeps_all));
        let given = RotationRules::parse(r#"{"maxsize": 1, "maxage": 2, "maxbackups": 3}"#).unwrap();
        assert_eq!((given.size_max, given.backups_max, given.age_max), (MEBIBYTE, 3, 2 * DAY));
        for wrong in ["", "[]", r#"{"maxsize": -1}"#, r#"{"compress": true}"#] {
            assert!(RotationRules::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_full_file_is_renamed_and_only_the_newest_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etcd.log");
        for stranger in ["etcd-notes.log", "etcd-2000-01-01T00-00-00.000.txt"] {
            std::fs::write(dir.path().join(stranger), "").unwrap();
        }
        for old in ["etcd-2000-01-01T00-00-00.000.log", "etcd-2000-01-01T00-00-00.001.log"] {
            std::fs::write(dir.path().join(old), "").unwrap();
        }
        std::fs::write(&path, "before").unwrap();
        let rules = RotationRules { size_max: 10, backups_max: 2, age_max: Duration::ZERO };
        let mut file = RotatedFile::open(&path, &rules).unwrap();
        file.write_all(b"1234").unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 5, "it is full, and not more");
        file.write_all(b"5").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "5");
        let mut names: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names.len(), 5, "{names:?}");
        assert!(!names.contains(&"etcd-2000-01-01T00-00-00.000.log".to_owned()), "the oldest has gone");
        let full = names.iter().find(|name| name.starts_with("etcd-2") && !name.starts_with("etcd-2000"));
        assert_eq!(std::fs::read_to_string(dir.path().join(full.unwrap())).unwrap(), "before1234");
    }
}
