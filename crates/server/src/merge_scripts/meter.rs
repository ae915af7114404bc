//! What the script that runs on this thread has taken: functions charge it before they do their work, and a script that has
//! taken too much ends. The same script with the same values is charged the same everywhere; only the deadline, far beyond
//! what the counts allow, depends on the machine.

use rhai::{Dynamic, EvalAltResult, Position};
use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

/// Bytes of values that one run may create, whether or not they are kept.
pub const CREATED_BYTES_MAX: usize = 48 * 1024 * 1024;
/// Bytes that the functions of one run may go through.
pub const TOUCHED_BYTES_MAX: usize = 256 * 1024 * 1024;
/// For one merge. What the counts allow takes a fraction of it.
pub const TIME_MAX: Duration = Duration::from_secs(2);
/// So many operations pass between two looks at the clock.
const OPERATIONS_PER_LOOK: u64 = 64;

/// Why a script gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptFailure {
    /// Too many steps, or calls too deep.
    Operations,
    /// Too many bytes to create or to go through.
    Memory,
    Time,
    /// The script ended with an error, or with something that is no value.
    Failed,
}

impl fmt::Display for ScriptFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScriptFailure::Operations => "too many operations",
            ScriptFailure::Memory => "too much memory",
            ScriptFailure::Time => "too much time",
            ScriptFailure::Failed => "an error",
        })
    }
}

#[derive(Clone, Copy)]
pub struct Meter {
    created: usize,
    touched: usize,
    deadline: Option<Instant>,
    failure: Option<ScriptFailure>,
}

const IDLE: Meter = Meter { created: 0, touched: 0, deadline: None, failure: None };

thread_local! {
    static METER: Cell<Meter> = const { Cell::new(IDLE) };
}

impl Meter {
    pub fn start(deadline: Instant) {
        METER.set(Meter { deadline: Some(deadline), ..IDLE });
    }

    pub fn failure() -> Option<ScriptFailure> {
        METER.get().failure
    }

    /// Whether the script ends here.
    pub fn is_over(operations: u64) -> bool {
        let mut meter = METER.get();
        let looks = operations.is_multiple_of(OPERATIONS_PER_LOOK);
        if looks && meter.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            meter.failure = Some(ScriptFailure::Time);
            METER.set(meter);
        }
        meter.failure.is_some()
    }

    /// Charges a function for what it is about to do.
    pub fn charge(touched: usize, created: usize) -> Result<(), Box<EvalAltResult>> {
        let mut meter = METER.get();
        meter.touched = meter.touched.saturating_add(touched);
        meter.created = meter.created.saturating_add(created);
        if meter.touched > TOUCHED_BYTES_MAX || meter.created > CREATED_BYTES_MAX {
            meter.failure = Some(ScriptFailure::Memory);
        } else if meter.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            meter.failure = Some(ScriptFailure::Time);
        }
        METER.set(meter);
        match meter.failure {
            None => Ok(()),
            Some(_) => Err(EvalAltResult::ErrorTerminated(Dynamic::UNIT, Position::NONE).into()),
        }
    }
}
