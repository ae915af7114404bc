//! What scripts can do with values. Every function charges the meter for what it goes through and what it creates.

use super::meter::Meter;
use super::value::ScriptValue;
use bytes::Bytes;
use mesh::{Handler, NoScript};
use rhai::{Dynamic, Engine, EvalAltResult, ImmutableString};

type Outcome<T> = Result<T, Box<EvalAltResult>>;

/// To parse, merge and write JSON takes memory and time many times its size.
const JSON_CREATES: usize = 8;
const JSON_TOUCHES: usize = 32;
/// Numbers are looked for in what is compared.
const ORDER_TOUCHES: usize = 4;

pub fn register(engine: &mut Engine) {
    engine.register_type_with_name::<ScriptValue>("ScriptValue");
    merging(engine, "larger", Handler::Max, (ORDER_TOUCHES, 0));
    merging(engine, "smaller", Handler::Min, (ORDER_TOUCHES, 0));
    merging(engine, "longer", Handler::Longest, (1, 0));
    merging(engine, "merge_json", Handler::JsonMerge, (JSON_TOUCHES, JSON_CREATES));
    comparing(engine, "==", |left, right| left == right);
    comparing(engine, "!=", |left, right| left != right);
    comparing(engine, "<", |left, right| left < right);
    comparing(engine, "<=", |left, right| left <= right);
    comparing(engine, ">", |left, right| left > right);
    comparing(engine, ">=", |left, right| left >= right);
    comparing(engine, "starts_with", |left, right| left.starts_with(right));
    comparing(engine, "ends_with", |left, right| left.ends_with(right));
    pair(engine, "contains", |left, right| Ok(find(left, right)?.is_some()));
    pair(engine, "index_of", |left, right| Ok(find(left, right)?.map_or(-1, |at| at as i64)));
    pair(engine, "+", join);
    sizes(engine);
    parts(engine);
}

/// Registers a function of two values, or of a value and a text of the script.
fn pair<T: Clone + Send + Sync + 'static>(
    engine: &mut Engine,
    name: &str,
    function: fn(&ScriptValue, &ScriptValue) -> Outcome<T>,
) {
    engine.register_fn(name, move |left: ScriptValue, right: ScriptValue| function(&left, &right));
    engine.register_fn(name, move |left: ScriptValue, right: ImmutableString| function(&left, &right.into()));
    engine.register_fn(name, move |left: ImmutableString, right: ScriptValue| function(&left.into(), &right));
}

fn comparing(engine: &mut Engine, name: &str, holds: fn(&[u8], &[u8]) -> bool) {
    let compare = move |left: &ScriptValue, right: &ScriptValue| {
        Meter::charge(left.len().min(right.len()), 0)?;
        Ok::<_, Box<EvalAltResult>>(holds(&left.bytes, &right.bytes))
    };
    engine.register_fn(name, move |left: ScriptValue, right: ScriptValue| compare(&left, &right));
    engine.register_fn(name, move |left: ScriptValue, right: ImmutableString| compare(&left, &right.into()));
    engine.register_fn(name, move |left: ImmutableString, right: ScriptValue| compare(&left.into(), &right));
}

fn merging(engine: &mut Engine, name: &str, handler: Handler, (touches, creates): (usize, usize)) {
    let merge = move |left: ScriptValue, right: ScriptValue| {
        let bytes = left.len() + right.len();
        Meter::charge(touches * bytes, creates * bytes)?;
        let merged = handler.merge(&NoScript, &left.bytes, &right.bytes).unwrap_or_default();
        Ok::<_, Box<EvalAltResult>>(ScriptValue { bytes: merged, is_text: left.is_text && right.is_text })
    };
    let (with_text, of_text, texts) = (merge.clone(), merge.clone(), merge.clone());
    engine.register_fn(name, move |left: ScriptValue, right: ScriptValue| merge(left, right));
    engine.register_fn(name, move |left: ScriptValue, right: ImmutableString| with_text(left, right.into()));
    engine.register_fn(name, move |left: ImmutableString, right: ScriptValue| of_text(left.into(), right));
    engine.register_fn(name, move |left: ImmutableString, right: ImmutableString| {
        texts(left.into(), right.into())
    });
}

fn join(left: &ScriptValue, right: &ScriptValue) -> Outcome<ScriptValue> {
    let bytes = left.len() + right.len();
    Meter::charge(bytes, bytes)?;
    let joined = [&left.bytes[..], &right.bytes].concat().into();
    Ok(ScriptValue { bytes: joined, is_text: left.is_text && right.is_text })
}

/// Where the second begins in the first, in characters of a text and else in bytes.
fn find(left: &ScriptValue, right: &ScriptValue) -> Outcome<Option<usize>> {
    let (bytes, sought) = (&left.bytes[..], &right.bytes[..]);
    if sought.is_empty() {
        return Ok(Some(0));
    }
    if let (Some(text), Some(sought)) = (left.text(), right.text()) {
        // Linear, by the standard library.
        Meter::charge(4 * (bytes.len() + sought.len()), 0)?;
        return Ok(text.find(sought).map(|at| text[..at].chars().count()));
    }
    Meter::charge(bytes.len().saturating_mul(sought.len()), 0)?;
    Ok(bytes.windows(sought.len()).position(|window| window == sought))
}

fn sizes(engine: &mut Engine) {
    fn count(value: &mut ScriptValue) -> Outcome<i64> {
        Meter::charge(value.len(), 0)?;
        Ok(value.text().map_or(value.len(), |text| text.chars().count()) as i64)
    }
    fn count_text(text: &mut ImmutableString) -> i64 {
        text.chars().count() as i64
    }
    engine.register_get("len", count).register_get("len", count_text);
    engine.register_fn("len", count).register_fn("len", count_text);
    engine.register_fn("is_empty", |value: &mut ScriptValue| value.bytes.is_empty());
    engine.register_fn("is_empty", |text: &mut ImmutableString| text.is_empty());
}

fn parts(engine: &mut Engine) {
    engine.register_fn("sub_string", |value: ScriptValue, from: i64, len: i64| sub_string(&value, from, len));
    engine.register_fn("sub_string", |value: ScriptValue, from: i64| sub_string(&value, from, i64::MAX));
    engine.register_fn("trim", |value: ScriptValue| {
        map_text(value, |text, bytes| bytes.slice_ref(text.trim().as_bytes()))
    });
    engine.register_fn("to_upper", |value: ScriptValue| {
        map_text(value, |text, _| text.to_ascii_uppercase().into())
    });
    engine.register_fn("to_lower", |value: ScriptValue| {
        map_text(value, |text, _| text.to_ascii_lowercase().into())
    });
    engine.register_fn("to_string", |number: i64| ImmutableString::from(number.to_string()));
    engine.register_fn("parse_int", |value: ScriptValue| parse_int(value.text()));
    engine.register_fn("parse_int", |text: ImmutableString| parse_int(Some(&text)));
}

/// Nothing if it is no whole number.
fn parse_int(text: Option<&str>) -> Dynamic {
    let number = text.filter(|text| text.len() <= 20).and_then(|text| text.trim().parse::<i64>().ok());
    number.map_or(Dynamic::UNIT, Dynamic::from)
}

/// Characters of a text, else bytes; they are shared, not copied.
fn sub_string(value: &ScriptValue, from: i64, len: i64) -> Outcome<ScriptValue> {
    Meter::charge(value.len(), 0)?;
    let (from, len) = (usize::try_from(from).unwrap_or(0), usize::try_from(len).unwrap_or(0));
    let to = from.saturating_add(len);
    let at = |nth: usize| match value.text() {
        Some(text) => text.char_indices().nth(nth).map_or(text.len(), |(at, _)| at),
        None => nth.min(value.len()),
    };
    Ok(ScriptValue { bytes: value.bytes.slice(at(from)..at(to)), is_text: value.is_text })
}

fn map_text(value: ScriptValue, change: fn(&str, &Bytes) -> Bytes) -> Outcome<ScriptValue> {
    Meter::charge(value.len(), value.len())?;
    let Some(text) = value.text() else { return Err("these bytes are no text".into()) };
    Ok(ScriptValue { bytes: change(text, &value.bytes), is_text: true })
}
