//! Entry points for the fuzz targets: the text of a configuration file, and a command line of etcd's.

use crate::config::gather::{self, File, Sources};
use crate::config::{check, print};
use crate::etcd::line::{self, ParsedLine};
use crate::etcd::translate::translate;

/// As the file that `--config` names.
pub fn toml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let nothing = |_: &str| None;
    let file = Some(File { path: "fuzzed.toml".into(), text: text.to_owned() });
    if let Ok(values) = gather::gather(&Sources { flag: &nothing, variable: &nothing, file }) {
        let _ = (print::print(&values), check::check(&values).is_ok());
    }
}

/// The words of a command line, with a zero between any two.
pub fn etcd_flags(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let words: Vec<String> = text.split('\0').map(str::to_owned).collect();
    if let Ok(ParsedLine::Flags(given)) = line::read(&words, &|_| None) {
        let _ = translate(&given).is_ok();
    }
}
