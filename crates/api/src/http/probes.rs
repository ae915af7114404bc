//! `/livez` and `/readyz`: named checks for an orchestrator, one by one or all together.
//! Each check is run against the core when asked. The body is `ok`, or a line per check when a check fails or
//! `?verbose` is given; `?exclude=name` leaves one out.

use crate::http::health;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use server::Handle;
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    SerializableRead,
    LinearizableRead,
}

/// A member that answers from its own state is alive.
const LIVE: &[Check] = &[Check::SerializableRead];
/// One that also reaches a quorum is ready.
const READY: &[Check] = &[Check::SerializableRead, Check::LinearizableRead];

impl Check {
    fn name(self) -> &'static str {
        match self {
            Check::SerializableRead => "serializable_read",
            Check::LinearizableRead => "linearizable_read",
        }
    }

    async fn run(self, handle: &Handle) -> Result<(), String> {
        let serializable = self == Check::SerializableRead;
        health::read(handle, serializable).await.map_err(|code| code.to_string())
    }
}

pub async fn livez(State(handle): State<Handle>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    run(&handle, &Options::parse(query.as_deref()), LIVE).await
}

pub async fn readyz(State(handle): State<Handle>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    run(&handle, &Options::parse(query.as_deref()), READY).await
}

pub async fn livez_one(State(handle): State<Handle>, Path(name): Path<String>) -> (StatusCode, String) {
    run_one(&handle, &name, LIVE).await
}

pub async fn readyz_one(State(handle): State<Handle>, Path(name): Path<String>) -> (StatusCode, String) {
    run_one(&handle, &name, READY).await
}

async fn run_one(handle: &Handle, name: &str, checks: &[Check]) -> (StatusCode, String) {
    match checks.iter().find(|check| check.name() == name) {
        Some(check) => run(handle, &Options::default(), &[*check]).await,
        None => (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    }
}

async fn run(handle: &Handle, options: &Options, checks: &[Check]) -> (StatusCode, String) {
    let mut results = vec![];
    for check in checks.iter().filter(|check| !options.excluded(check.name())) {
        results.push((check.name(), check.run(handle).await));
    }
    render(&results, options.verbose)
}

fn render(results: &[(&str, Result<(), String>)], verbose: bool) -> (StatusCode, String) {
    let mut lines = String::new();
    for (name, outcome) in results {
        match outcome {
            Ok(()) => writeln!(lines, "[+]{name} ok"),
            Err(reason) => writeln!(lines, "[-]{name} failed: {reason}"),
        }
        .expect("a String takes every write");
    }
    let healthy = results.iter().all(|(_, outcome)| outcome.is_ok());
    match (healthy, verbose) {
        (true, false) => (StatusCode::OK, "ok\n".to_owned()),
        (true, true) => (StatusCode::OK, lines + "ok\n"),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, lines),
    }
}

/// `?verbose` stands alone and `?exclude=` may come several times, so the query is read by hand.
#[derive(Default)]
struct Options {
    verbose: bool,
    excluded: Vec<String>,
}

impl Options {
    fn parse(query: Option<&str>) -> Options {
        let mut options = Options::default();
        for pair in query.unwrap_or_default().split('&') {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("verbose", _) => options.verbose = true,
                ("exclude", name) => options.excluded.push(name.to_owned()),
                _ => {}
            }
        }
        options
    }

    fn excluded(&self, name: &str) -> bool {
        self.excluded.iter().any(|excluded| excluded == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_healthy_member_says_ok_and_lists_its_checks_when_asked() {
        let passed = [("serializable_read", Ok(())), ("linearizable_read", Ok(()))];
        assert_eq!(render(&passed, false), (StatusCode::OK, "ok\n".to_owned()));
        assert_eq!(
            render(&passed, true),
            (StatusCode::OK, "[+]serializable_read ok\n[+]linearizable_read ok\nok\n".to_owned())
        );
    }

    #[test]
    fn a_failed_check_is_named_with_its_reason() {
        let results = [("serializable_read", Ok(())), ("linearizable_read", Err("no leader".to_owned()))];
        let expected = "[+]serializable_read ok\n[-]linearizable_read failed: no leader\n".to_owned();
        assert_eq!(render(&results, false), (StatusCode::SERVICE_UNAVAILABLE, expected));
    }

    #[test]
    fn options_are_read_from_the_query() {
        let options = Options::parse(Some("verbose&exclude=linearizable_read&exclude=other"));
        assert!(options.verbose);
        assert!(options.excluded("linearizable_read") && options.excluded("other"));
        assert!(!Options::parse(None).verbose);
    }
}
