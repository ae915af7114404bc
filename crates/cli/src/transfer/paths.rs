//! Opening the file of a transfer, with its length.

use crate::client::Error;
use std::fs::File;
use std::path::Path;

pub fn open(path: &Path) -> Result<(File, u64), Error> {
    let failed = |reason| Error::File { file: path.display().to_string(), reason };
    let file = File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    Ok((file, bytes))
}
