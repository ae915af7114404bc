//! The destinations of log lines: standard error, standard output, files, or several of them.
//! Every line goes to each; one that fails does not keep the line from the others.

use super::rotation::{RotatedFile, RotationRules};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Stderr,
    Stdout,
    /// Appended to, and created when it is not there.
    File(PathBuf),
    /// The same, until it is full.
    Rotated(PathBuf, RotationRules),
}

pub struct Outputs(Vec<Box<dyn Write + Send>>);

impl Outputs {
    pub fn open(outputs: &[Output]) -> io::Result<Outputs> {
        outputs.iter().map(open).collect::<io::Result<_>>().map(Outputs)
    }
}

fn open(output: &Output) -> io::Result<Box<dyn Write + Send>> {
    let named = |path: &Path, error: io::Error| {
        io::Error::new(error.kind(), format!("cannot log to {}: {error}", path.display()))
    };
    Ok(match output {
        Output::Stderr => Box::new(io::stderr()),
        Output::Stdout => Box::new(io::stdout()),
        Output::File(path) => {
            let opened = File::options().create(true).append(true).open(path);
            Box::new(opened.map_err(|error| named(path, error))?)
        }
        Output::Rotated(path, rules) => {
            Box::new(RotatedFile::open(path, rules).map_err(|error| named(path, error))?)
        }
    })
}

impl Write for Outputs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for output in &mut self.0 {
            // An error cannot be reported anywhere; the other outputs still get the line.
            let _ = output.write_all(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.iter_mut().try_for_each(|output| output.flush())
    }
}
