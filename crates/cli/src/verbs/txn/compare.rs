//! One compare of a transaction: `TARGET("KEY") OP "VALUE"`.

use crate::client::Error;
use crate::output::quote::unquote;
use proto::etcdserverpb::Compare;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};

pub fn parse(line: &[u8]) -> Result<Compare, Error> {
    let shown = || String::from_utf8_lossy(line).into_owned();
    let parts = Parts::of(line).ok_or_else(|| Error::Usage(format!("malformed comparison: {}", shown())))?;
    let result = match parts.operator {
        b"=" => CompareResult::Equal,
        b"!=" => CompareResult::NotEqual,
        b">" => CompareResult::Greater,
        b"<" => CompareResult::Less,
        _ => {
            return Err(Error::Usage(format!(
                "malformed comparison: {} (the operator is =, !=, < or >)",
                shown()
            )));
        }
    };
    let number = |radix| {
        let text = std::str::from_utf8(&parts.value).ok();
        let number = text.and_then(|text| i64::from_str_radix(text, radix).ok());
        number.ok_or_else(|| Error::Usage(format!("invalid txn compare request: {}", shown())))
    };
    let (target, union) = match parts.target {
        b"ver" | b"version" => (CompareTarget::Version, TargetUnion::Version(number(10)?)),
        b"c" | b"create" => (CompareTarget::Create, TargetUnion::CreateRevision(number(10)?)),
        b"m" | b"mod" => (CompareTarget::Mod, TargetUnion::ModRevision(number(10)?)),
        b"val" | b"value" => (CompareTarget::Value, TargetUnion::Value(parts.value.clone().into())),
        b"lease" => (CompareTarget::Lease, TargetUnion::Lease(number(16)?)),
        target => {
            let target = String::from_utf8_lossy(target);
            let problem = format!("malformed comparison: {} (unknown target {target})", shown());
            return Err(Error::Usage(problem));
        }
    };
    Ok(Compare {
        result: result as i32,
        target: target as i32,
        key: parts.key.into(),
        target_union: Some(union),
        range_end: Default::default(),
    })
}

struct Parts<'a> {
    target: &'a [u8],
    key: Vec<u8>,
    operator: &'a [u8],
    value: Vec<u8>,
}

impl Parts<'_> {
    fn of(line: &[u8]) -> Option<Parts<'_>> {
        let paren = line.iter().position(|byte| *byte == b'(')?;
        let (key, rest) = unquote(line[paren + 1..].trim_ascii_start())?;
        let rest = rest.trim_ascii_start().strip_prefix(b")")?.trim_ascii_start();
        let end = rest.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'"')?;
        let (operator, rest) = rest.split_at(end);
        let (value, rest) = unquote(rest.trim_ascii_start())?;
        rest.trim_ascii().is_empty().then_some(Parts {
            target: line[..paren].trim_ascii(),
            key,
            operator,
            value,
        })
    }
}
