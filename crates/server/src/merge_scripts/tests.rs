//! Scripts that do their work, and scripts that try to take everything.

use super::*;
use mesh::{Handler, MergeLaw};

fn run(source: &str, left: &Bytes, right: &Bytes) -> Result<Bytes, ScriptFailure> {
    Scripts::default().run(source, left, right, Instant::now() + TIME_MAX * 30)
}

fn merge(source: &str, left: &'static str, right: &'static str) -> Option<Bytes> {
    run(source, &Bytes::from_static(left.as_bytes()), &Bytes::from_static(right.as_bytes())).ok()
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
fn values_have_what_scripts_need() {
    for (source, expected) in [
        ("left + right", "10;zü9"),
        ("left + \", \" + right", "10;, zü9"),
        ("right.len", "3"),
        ("left.len()", "3"),
        ("if left < right && left != right && left == \"10;\" { 1 } else { 2 }", "1"),
        (
            "if right.contains(\"ü\") && right.starts_with(\"z\") && !right.ends_with(left) { 1 } else { 2 }",
            "1",
        ),
        ("right.sub_string(1, 1)", "ü"),
        ("left.sub_string(0, left.index_of(\";\")).parse_int() + 1", "11"),
        ("right.to_upper() + (\" \" + left).trim()", "Zü910;"),
        ("let n = 0; let s = left; while n < 3 { s = s + to_string(n); n += 1; } s", "10;012"),
        ("fn pick(a, b) { if a > b { a } else { b } } pick(left, right)", "zü9"),
        ("merge_json(\"{\\\"a\\\":1}\", \"{\\\"b\\\":2}\")", r#"{"a":1,"b":2}"#),
        ("smaller(left, \"0\")", "0"),
        ("if parse_int(right) == () { longer(left, right) } else { left }", "zü9"),
    ] {
        assert_eq!(merge(source, "10;", "zü9"), Some(expected.to_owned().into()), "{source}");
    }
}

#[test]
fn one_that_breaks_a_law_is_found_out() {
    let breach = Handler::Script("left".to_owned()).check(&Scripts::default(), 7).unwrap_err();
    assert_eq!(breach.law, MergeLaw::Commutative);
}

#[test]
fn what_takes_too_much_or_reaches_outside_gives_nothing() {
    for source in [
        "loop { }",
        "fn f(x) { f(x) } f(1)",
        "let s = left; loop { s += s; }",
        "let s = \"aaaa\"; loop { s += s; }",
        "let a = []; loop { a.push(a); }",
        "let m = #{}; loop { m.x = m; }",
        "let f = Fn(\"x\"); loop { f = f.curry(f); }",
        "let f = |x| x; loop { f = f.curry(f); }",
        "let f = |x| x; f.call(1)",
        "try { throw 1; } catch (e) { loop { e.x = e; } }",
        "let s = `${left}`; s",
        "for x in left { }",
        "sleep(15)",
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

#[test]
fn no_function_takes_more_than_its_share_of_large_values() {
    let large = Bytes::from("7".repeat(1_500_000));
    let other = Bytes::from(vec![0xff; 1_500_000]);
    for (source, expected) in [
        ("let s = left; loop { s = s + left; }", ScriptFailure::Memory),
        ("let s = left; loop { s += left; }", ScriptFailure::Memory),
        ("loop { let x = left + right; }", ScriptFailure::Memory),
        ("loop { larger(left, right); }", ScriptFailure::Memory),
        ("loop { merge_json(left, right); }", ScriptFailure::Memory),
        ("loop { left == left; }", ScriptFailure::Memory),
        ("loop { left.contains(right); }", ScriptFailure::Memory),
        ("loop { left.len; }", ScriptFailure::Memory),
        ("loop { left.sub_string(5, 1000000).sub_string(3); }", ScriptFailure::Memory),
        ("let n = 0; loop { n += 1; }", ScriptFailure::Operations),
        ("fn f(x) { f(x) } f(left)", ScriptFailure::Operations),
    ] {
        for right in [&large, &other] {
            assert_eq!(run(source, &large, right), Err(expected), "{source}");
        }
    }
    for source in
        ["larger(left, right)", "merge_json(left, right)", "if left.len > right.len { left } else { right }"]
    {
        assert!(run(source, &large, &other).is_ok(), "{source}");
    }
}

#[test]
fn a_deadline_ends_what_the_counts_would_allow() {
    let past = Instant::now();
    let scripts = Scripts::default();
    let (left, right) = (Bytes::from_static(b"a"), Bytes::from_static(b"b"));
    assert_eq!(scripts.run("let n = 0; loop { n += 1; }", &left, &right, past), Err(ScriptFailure::Time));
    assert_eq!(scripts.run("larger(left, right)", &left, &right, past), Err(ScriptFailure::Time));
    let bounded = scripts.until(past);
    assert_eq!(bounded.merge("larger(left, right)", &left, &right), None);
    assert_eq!(bounded.failure(), Some(ScriptFailure::Time));
    assert_eq!(scripts.merge("larger(left, right)", &left, &right), Some(right), "the next one has its own");
}
