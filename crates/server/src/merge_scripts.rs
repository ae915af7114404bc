//! Runs the merge handlers that users write: two values go in, one comes out, or why there is none.
//! A script sees `left` and `right` and nothing else: no clock, no file, no randomness, no floating point, so it gives the
//! same for the same on every node. What it may take is counted, not measured: steps, bytes that functions touch, bytes that
//! they create. Time is a net below that. See docs/adr/0057.

mod functions;
mod meter;
#[cfg(test)]
mod tests;
mod value;

pub use meter::ScriptFailure;

use bytes::Bytes;
use mesh::Script;
use meter::{Meter, TIME_MAX};
use rhai::packages::{ArithmeticPackage, LogicPackage, Package};
use rhai::{AST, Dynamic, Engine, EvalAltResult, ImmutableString, OptimizationLevel, Scope};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use value::ScriptValue;

const OPERATIONS_MAX: u64 = 20_000;
const CALLS_DEEP_MAX: usize = 16;
const EXPRESSION_DEPTH_MAX: usize = 32;
const VARIABLES_MAX: usize = 64;
const FUNCTIONS_MAX: usize = 32;
/// The longest text that a script makes itself. Values are not texts of the engine, and are counted by the meter.
const TEXT_BYTES_MAX: usize = 4 * 1024;
/// Compiled scripts that are cached; beyond that the cache is emptied.
const COMPILED_MAX: usize = 256;

/// Symbols without which nothing can hold more than its own text: no lists, maps and functions as values, nothing that waits or
/// catches what ends a script.
const DISABLED: [&str; 12] =
    ["eval", "Fn", "curry", "call", "[", "#{", "try", "catch", "sleep", "print", "debug", "this"];
/// Begins a text with parts in it, which the engine would put together uncounted.
const BACKTICK: char = '`';

/// Cheap to clone.
#[derive(Clone)]
pub struct Scripts {
    shared: Arc<ScriptEngine>,
}

struct ScriptEngine {
    engine: Engine,
    /// By their source; none for one that does not compile.
    compiled: Mutex<BTreeMap<String, Option<Arc<AST>>>>,
}

impl Default for Scripts {
    fn default() -> Scripts {
        Scripts { shared: Arc::new(ScriptEngine { engine: engine(), compiled: Mutex::default() }) }
    }
}

impl Scripts {
    /// What is wrong with the words of a script, if anything is.
    pub fn flaw(&self, source: &str) -> Option<String> {
        self.compile(source).err()
    }

    fn compile(&self, source: &str) -> Result<AST, String> {
        if source.contains(BACKTICK) {
            return Err("texts stand in double quotes, not in backticks".to_owned());
        }
        self.shared.engine.compile(source).map_err(|error| error.to_string())
    }

    fn compiled(&self, source: &str) -> Option<Arc<AST>> {
        let mut compiled = self.shared.compiled.lock().expect("no thread panics while it holds the scripts");
        if let Some(known) = compiled.get(source) {
            return known.clone();
        }
        if compiled.len() >= COMPILED_MAX {
            compiled.clear();
        }
        let ast = self.compile(source).ok().map(Arc::new);
        compiled.insert(source.to_owned(), ast.clone());
        ast
    }

    /// Merges two values before the deadline, or says why not.
    pub fn run(
        &self,
        source: &str,
        left: &Bytes,
        right: &Bytes,
        deadline: Instant,
    ) -> Result<Bytes, ScriptFailure> {
        let ast = self.compiled(source).ok_or(ScriptFailure::Failed)?;
        let mut scope = Scope::new();
        let is_text = std::str::from_utf8(left).is_ok() && std::str::from_utf8(right).is_ok();
        for (name, bytes) in [("left", left), ("right", right)] {
            scope.push_constant(name, ScriptValue { bytes: bytes.clone(), is_text });
        }
        Meter::start(deadline);
        let outcome = self.shared.engine.eval_ast_with_scope::<Dynamic>(&mut scope, &ast);
        let outcome = outcome.map_err(|error| Meter::failure().unwrap_or_else(|| failure_of(&error)));
        bytes_of(outcome?).ok_or(ScriptFailure::Failed)
    }

    /// The same scripts for several merges, which end together.
    pub fn until(&self, deadline: Instant) -> BoundedScripts {
        BoundedScripts { scripts: self.clone(), deadline, failure: Cell::new(None) }
    }
}

impl Script for Scripts {
    fn merge(&self, source: &str, left: &Bytes, right: &Bytes) -> Option<Bytes> {
        self.run(source, left, right, Instant::now() + TIME_MAX).ok()
    }
}

/// Scripts with one deadline for all that is merged, and what was in the way last.
pub struct BoundedScripts {
    scripts: Scripts,
    deadline: Instant,
    failure: Cell<Option<ScriptFailure>>,
}

impl BoundedScripts {
    pub fn failure(&self) -> Option<ScriptFailure> {
        self.failure.get()
    }

    /// What is wrong with the words of a script, if anything is.
    pub fn flaw(&self, source: &str) -> Option<String> {
        self.scripts.flaw(source)
    }
}

impl Script for BoundedScripts {
    fn merge(&self, source: &str, left: &Bytes, right: &Bytes) -> Option<Bytes> {
        let deadline = self.deadline.min(Instant::now() + TIME_MAX);
        let outcome = self.scripts.run(source, left, right, deadline);
        outcome.map_err(|failure| self.failure.set(Some(failure))).ok()
    }
}

fn failure_of(error: &EvalAltResult) -> ScriptFailure {
    match error.unwrap_inner() {
        EvalAltResult::ErrorTooManyOperations(_) | EvalAltResult::ErrorStackOverflow(_) => {
            ScriptFailure::Operations
        }
        EvalAltResult::ErrorDataTooLarge(..) | EvalAltResult::ErrorTooManyVariables(_) => {
            ScriptFailure::Memory
        }
        _ => ScriptFailure::Failed,
    }
}

fn bytes_of(result: Dynamic) -> Option<Bytes> {
    if let Some(value) = result.clone().try_cast::<ScriptValue>() {
        return Some(value.bytes);
    }
    if let Some(number) = result.clone().try_cast::<i64>() {
        return Some(number.to_string().into());
    }
    result.try_cast::<ImmutableString>().map(|text| Bytes::copy_from_slice(text.as_bytes()))
}

fn engine() -> Engine {
    let mut engine = Engine::new_raw();
    ArithmeticPackage::new().register_into_engine(&mut engine);
    LogicPackage::new().register_into_engine(&mut engine);
    engine
        .set_max_operations(OPERATIONS_MAX)
        .set_max_call_levels(CALLS_DEEP_MAX)
        .set_max_expr_depths(EXPRESSION_DEPTH_MAX, EXPRESSION_DEPTH_MAX)
        .set_max_variables(VARIABLES_MAX)
        .set_max_functions(FUNCTIONS_MAX)
        .set_max_string_size(TEXT_BYTES_MAX)
        .set_max_array_size(1)
        .set_max_map_size(1)
        .set_max_strings_interned(0)
        // Nothing runs while a script is read.
        .set_optimization_level(OptimizationLevel::None)
        .on_progress(|operations| Meter::is_over(operations).then_some(Dynamic::UNIT))
        .on_print(|_| {})
        .on_debug(|_, _, _| {});
    for symbol in DISABLED {
        engine.disable_symbol(symbol);
    }
    functions::register(&mut engine);
    engine
}
