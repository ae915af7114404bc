//! Runs the merge handlers that users write: two values go in, one comes out, or nothing if the script fails or takes
//! too much. A script sees `left` and `right` and nothing else: no clock, no file, no randomness, no floating point, so
//! it gives the same for the same on every node; how long it runs and how much it keeps is bounded.

use bytes::Bytes;
use mesh::Script;
use mesh::handler::{Handler, NoScript};
use rhai::{AST, Blob, Dynamic, Engine, ImmutableString, Scope};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const OPERATIONS_MAX: u64 = 20_000;
const CALLS_DEEP_MAX: usize = 16;
const EXPRESSION_DEPTH_MAX: usize = 32;
const VARIABLES_MAX: usize = 64;
const FUNCTIONS_MAX: usize = 32;
const STRING_BYTES_MAX: usize = 4 * 1024 * 1024;
const ELEMENTS_MAX: usize = 16 * 1024;
/// Compiled scripts that are cached; beyond that the cache is emptied.
const COMPILED_MAX: usize = 256;

/// Cheap to clone.
#[derive(Clone)]
pub struct Scripts {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    /// By their source; none for one that does not compile.
    compiled: Mutex<BTreeMap<String, Option<Arc<AST>>>>,
}

impl Default for Scripts {
    fn default() -> Scripts {
        Scripts { shared: Arc::new(Shared { engine: engine(), compiled: Mutex::default() }) }
    }
}

impl Scripts {
    /// What is wrong with the words of a script, if anything is.
    pub fn flaw(&self, source: &str) -> Option<String> {
        self.shared.engine.compile(source).err().map(|error| error.to_string())
    }

    fn compiled(&self, source: &str) -> Option<Arc<AST>> {
        let mut compiled = self.shared.compiled.lock().expect("no thread panics while it holds the scripts");
        if let Some(known) = compiled.get(source) {
            return known.clone();
        }
        if compiled.len() >= COMPILED_MAX {
            compiled.clear();
        }
        let ast = self.shared.engine.compile(source).ok().map(Arc::new);
        compiled.insert(source.to_owned(), ast.clone());
        ast
    }
}

impl Script for Scripts {
    fn merge(&self, source: &str, left: &Bytes, right: &Bytes) -> Option<Bytes> {
        let ast = self.compiled(source)?;
        let mut scope = Scope::new();
        // Text if both are text, else bytes: a script need not wonder about a mixture.
        match (std::str::from_utf8(left), std::str::from_utf8(right)) {
            (Ok(left), Ok(right)) => {
                scope.push_constant("left", ImmutableString::from(left));
                scope.push_constant("right", ImmutableString::from(right));
            }
            _ => {
                scope.push_constant("left", left.to_vec());
                scope.push_constant("right", right.to_vec());
            }
        }
        let result: Dynamic = self.shared.engine.eval_ast_with_scope(&mut scope, &ast).ok()?;
        bytes_of(result)
    }
}

fn bytes_of(result: Dynamic) -> Option<Bytes> {
    if let Some(number) = result.clone().try_cast::<i64>() {
        return Some(number.to_string().into());
    }
    if let Some(bytes) = result.clone().try_cast::<Blob>() {
        return Some(bytes.into());
    }
    result.into_immutable_string().ok().map(|text| Bytes::copy_from_slice(text.as_bytes()))
}

fn engine() -> Engine {
    let mut engine = Engine::new();
    engine
        .set_max_operations(OPERATIONS_MAX)
        .set_max_call_levels(CALLS_DEEP_MAX)
        .set_max_expr_depths(EXPRESSION_DEPTH_MAX, EXPRESSION_DEPTH_MAX)
        .set_max_variables(VARIABLES_MAX)
        .set_max_functions(FUNCTIONS_MAX)
        .set_max_string_size(STRING_BYTES_MAX)
        .set_max_array_size(ELEMENTS_MAX)
        .set_max_map_size(ELEMENTS_MAX)
        .disable_symbol("eval")
        .on_print(|_| {})
        .on_debug(|_, _, _| {});
    for (name, handler) in [
        ("larger", Handler::Max),
        ("smaller", Handler::Min),
        ("longer", Handler::Longest),
        ("merge_json", Handler::JsonMerge),
    ] {
        let of_bytes = handler.clone();
        engine.register_fn(name, move |left: ImmutableString, right: ImmutableString| -> ImmutableString {
            let (left, right) = (copied(left.as_bytes()), copied(right.as_bytes()));
            // Of two texts these give a text.
            let joined = handler.merge(&NoScript, &left, &right).unwrap_or_default();
            String::from_utf8_lossy(&joined).into_owned().into()
        });
        engine.register_fn(name, move |left: Blob, right: Blob| -> Blob {
            of_bytes.merge(&NoScript, &copied(&left), &copied(&right)).unwrap_or_default().to_vec()
        });
    }
    engine
}

fn copied(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh::handler::Law;

    fn merge(source: &str, left: &'static str, right: &'static str) -> Option<Bytes> {
        Scripts::default().merge(
            source,
            &Bytes::from_static(left.as_bytes()),
            &Bytes::from_static(right.as_bytes()),
        )
    }

    #[test]
    fn a_script_joins_two_values() {
        let source = "if left.len == right.len { larger(left, right) } else if left.len > right.len { left } else { right }";
        assert_eq!(merge(source, "abc", "zz"), Some("abc".into()));
        let handler = Handler::Script(source.to_owned());
        assert_eq!(handler.check(&Scripts::default(), 7), Ok(()), "it keeps the laws, for bytes as well");
        assert_eq!(merge("40 + 2", "", ""), Some("42".into()));
    }

    #[test]
    fn one_that_breaks_a_law_is_found_out() {
        let breach = Handler::Script("left".to_owned()).check(&Scripts::default(), 7).unwrap_err();
        assert_eq!(breach.law, Law::Commutative);
    }

    #[test]
    fn what_takes_too_much_or_reaches_outside_gives_nothing() {
        for source in [
            "loop { }",
            "fn f(x) { f(x) } f(1)",
            "let s = left; loop { s += s; }",
            "let a = []; loop { a.push(a); }",
            "timestamp()",
            "import \"x\" as y; 1",
            "eval(\"1\")",
            "1.5",
            "throw 1",
            "]",
            "",
        ] {
            assert_eq!(merge(source, "aaaa", "b"), None, "{source}");
        }
    }
}
