//! Logging, to standard error by default, that does not wait for its reader.
//! Events go through a bounded queue to a thread of their own; when the reader has stopped, lines are dropped and
//! counted, and the count is written once the reader continues. Only an error waits for a moment until it is written,
//! because the process may end with it.

mod output;
mod queue;
mod rotation;

pub use output::Output;
pub use rotation::RotationRules;

use output::Outputs;
use queue::{Queue, QueueWriter};
use std::io::IsTerminal;
use std::time::Duration;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How long the end of the process waits for the last lines to be read.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Line,
    Pretty,
    Json,
}

impl LogFormat {
    /// The setting allows no other word.
    pub fn parse(word: &str) -> LogFormat {
        match word {
            "pretty" => LogFormat::Pretty,
            "json" => LogFormat::Json,
            _ => LogFormat::Line,
        }
    }
}

/// The running log; `flush` before the process ends.
pub struct Log {
    queue: Queue,
}

impl Log {
    /// Starts the log of this process. `filter` has been checked.
    pub fn start(filter: &str, format: LogFormat, outputs: &[Output]) -> std::io::Result<Log> {
        let queue = Queue::start(Outputs::open(outputs)?)?;
        let colours = outputs == [Output::Stderr] && std::io::stderr().is_terminal();
        let builder = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(filter))
            .with_ansi(colours)
            .with_writer(Lines(queue.clone()));
        match format {
            LogFormat::Line => builder.init(),
            LogFormat::Pretty => builder.pretty().init(),
            LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).init(),
        }
        Ok(Log { queue })
    }

    /// Waits a moment until what was logged so far is written.
    pub fn flush(&self) {
        self.queue.flush(FLUSH_TIMEOUT);
    }
}

struct Lines(Queue);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = QueueWriter<'a>;

    fn make_writer(&'a self) -> QueueWriter<'a> {
        self.0.writer()
    }

    /// An error may be the last line of the process.
    fn make_writer_for(&'a self, meta: &Metadata<'_>) -> QueueWriter<'a> {
        if *meta.level() == Level::ERROR { self.0.urgent_writer() } else { self.0.writer() }
    }
}
