//! `/livez` and `/readyz`: named checks for an orchestrator, one by one or all together.
//! Each check is run against the core when asked. The body is `ok`, or a line per check when a check fails or
//! `?verbose` is given; `?exclude=name` leaves one out.

use crate::http::{HttpState, health};
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use coord::Alarm;
use server::Handle;
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    DataCorruption,
    SerializableRead,
    LinearizableRead,
    NonLearner,
}

/// The checks behind one path.
struct Probe {
    name: &'static str,
    checks: &'static [Check],
}

/// A member that answers from its own state is alive.
static LIVEZ: Probe = Probe { name: "livez", checks: &[Check::SerializableRead] };
/// A member that also reaches a quorum is ready.
static READYZ: Probe = Probe {
    name: "readyz",
    checks: &[Check::DataCorruption, Check::SerializableRead, Check::LinearizableRead, Check::NonLearner],
};

impl Check {
    fn name(self) -> &'static str {
        match self {
            Check::DataCorruption => "data_corruption",
            Check::SerializableRead => "serializable_read",
            Check::LinearizableRead => "linearizable_read",
            Check::NonLearner => "non_learner",
        }
    }

    async fn run(self, handle: &Handle) -> Result<(), String> {
        let serializable = match self {
            Check::DataCorruption if is_corrupt(handle) => {
                return Err("alarm activated: CORRUPT".to_owned());
            }
            Check::DataCorruption => return Ok(()),
            Check::NonLearner if handle.members().is_learner() => {
                return Err("the local node is a learner".to_owned());
            }
            Check::NonLearner => return Ok(()),
            Check::SerializableRead => true,
            Check::LinearizableRead => false,
        };
        health::read(handle, serializable).await.map_err(|code| code.to_string())
    }
}

fn is_corrupt(handle: &Handle) -> bool {
    handle.maintenance().known_alarms().iter().any(Alarm::refuses_changes)
}

pub async fn livez(State(views): State<HttpState>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    LIVEZ.run(&views, &ProbeOptions::parse(query.as_deref())).await
}

pub async fn readyz(State(views): State<HttpState>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    READYZ.run(&views, &ProbeOptions::parse(query.as_deref())).await
}

pub async fn livez_one(
    State(views): State<HttpState>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> (StatusCode, String) {
    LIVEZ.run_one(&views, &name, &ProbeOptions::parse(query.as_deref())).await
}

pub async fn readyz_one(
    State(views): State<HttpState>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> (StatusCode, String) {
    READYZ.run_one(&views, &name, &ProbeOptions::parse(query.as_deref())).await
}

impl Probe {
    async fn run(&self, views: &HttpState, options: &ProbeOptions) -> (StatusCode, String) {
        let wanted = self.checks.iter().copied().filter(|check| !options.excluded(check.name()));
        self.run_checks(views, wanted, options.verbose).await
    }

    async fn run_one(&self, views: &HttpState, name: &str, options: &ProbeOptions) -> (StatusCode, String) {
        match self.checks.iter().find(|check| check.name() == name) {
            Some(check) => self.run_checks(views, [*check].into_iter(), options.verbose).await,
            None => (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        }
    }

    async fn run_checks(
        &self,
        views: &HttpState,
        checks: impl Iterator<Item = Check>,
        verbose: bool,
    ) -> (StatusCode, String) {
        let mut results = vec![];
        for check in checks {
            let outcome = check.run(&views.handle).await;
            views.metrics.count_check(self.name, check.name(), outcome.is_ok());
            results.push((check.name(), outcome));
        }
        render(&results, verbose)
    }
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
struct ProbeOptions {
    verbose: bool,
    excluded: Vec<String>,
}

impl ProbeOptions {
    fn parse(query: Option<&str>) -> ProbeOptions {
        let mut options = ProbeOptions::default();
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
        let options = ProbeOptions::parse(Some("verbose&exclude=linearizable_read&exclude=other"));
        assert!(options.verbose);
        assert!(options.excluded("linearizable_read") && options.excluded("other"));
        assert!(!ProbeOptions::parse(None).verbose);
    }
}
