//! The file of `--config-file`: etcd's settings as YAML, in the form of the flags that they stand for.
//! A text goes in, flags come out, or every problem by the name of its key. As in etcd, a file stands for the whole
//! command line. A key that etcd does not know is refused; etcd ignores it.

use super::flags::{EXPERIMENTAL, Flag, FlagTreatment, Shape};
use super::line::GivenFlag;
use saphyr_parser::{Event, Parser, ScalarStyle};
use std::borrow::Cow;

/// A section of the file, and the flags that its keys stand for.
struct Section {
    name: &'static str,
    keys: &'static [(&'static str, &'static str)],
}

const SECTIONS: [Section; 3] = [
    Section {
        name: "client-transport-security",
        keys: &[
            ("cert-file", "cert-file"),
            ("key-file", "key-file"),
            ("client-cert-file", "client-cert-file"),
            ("client-key-file", "client-key-file"),
            ("client-cert-auth", "client-cert-auth"),
            ("trusted-ca-file", "trusted-ca-file"),
            ("auto-tls", "auto-tls"),
            ("allowed-hostname", "client-cert-allowed-hostname"),
            ("skip-client-san-verification", "peer-skip-client-san-verification"),
        ],
    },
    Section {
        name: "peer-transport-security",
        keys: &[
            ("cert-file", "peer-cert-file"),
            ("key-file", "peer-key-file"),
            ("client-cert-file", "peer-client-cert-file"),
            ("client-key-file", "peer-client-key-file"),
            ("client-cert-auth", "peer-client-cert-auth"),
            ("trusted-ca-file", "peer-trusted-ca-file"),
            ("auto-tls", "peer-auto-tls"),
            ("allowed-cn", "peer-cert-allowed-cn"),
            ("allowed-hostname", "peer-cert-allowed-hostname"),
            ("skip-client-san-verification", "peer-skip-client-san-verification"),
        ],
    },
    Section {
        name: "socket-options",
        keys: &[("reuse-port", "socket-reuse-port"), ("reuse-address", "socket-reuse-address")],
    },
];

/// Flags whose value is a duration: a bare number in the file is nanoseconds, as Go reads it.
const DURATIONS: [&str; 2] =
    ["watch-progress-notify-interval", "experimental-watch-progress-notify-interval"];

/// The flags that the file at `path` stands for.
pub fn read(path: &str) -> Result<Vec<GivenFlag>, Vec<String>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| vec![format!("--config-file: cannot read {path}: {error}")])?;
    parse(&text).map_err(|problems| problems.iter().map(|problem| format!("{path}: {problem}")).collect())
}

fn parse(text: &str) -> Result<Vec<GivenFlag>, Vec<String>> {
    let mut reader = FileReader::default();
    for event in Parser::new_from_str(text) {
        let (event, at) = event.map_err(|error| vec![error.to_string()])?;
        reader.take(event, at.start.line()).map_err(|problem| vec![problem])?;
    }
    if reader.problems.is_empty() { Ok(reader.given) } else { Err(reader.problems) }
}

/// Where the reader is in the document.
#[derive(Default)]
struct FileReader {
    given: Vec<GivenFlag>,
    problems: Vec<String>,
    depth: usize,
    section: Option<&'static Section>,
    /// The key whose value comes next.
    key: Option<String>,
    /// The values of a list so far.
    list: Option<Vec<String>>,
}

impl FileReader {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), String> {
        let shape = |why: &str| Err(format!("line {line}: {why}"));
        match event {
            Event::MappingStart(..) if self.depth == 0 => self.depth = 1,
            Event::MappingStart(..) if self.depth == 1 && self.list.is_none() => {
                let key = self.key.take().unwrap_or_default();
                let Some(section) = SECTIONS.iter().find(|section| section.name == key) else {
                    return shape(&format!("{key} cannot be a section"));
                };
                self.section = Some(section);
                self.depth = 2;
            }
            Event::MappingEnd => {
                self.depth -= 1;
                self.section = None;
            }
            Event::SequenceStart(..) if self.key.is_some() && self.list.is_none() => {
                self.list = Some(vec![]);
            }
            Event::SequenceEnd => {
                let values = self.list.take().unwrap_or_default();
                self.finish(values.join(","), false);
            }
            Event::Scalar(text, style, ..) if self.depth > 0 => self.take_scalar(text, style),
            // A file of comments alone.
            Event::Scalar(text, ..) if text.is_empty() => {}
            Event::Alias(_) => return shape("aliases are not read"),
            Event::Scalar(..) | Event::MappingStart(..) | Event::SequenceStart(..) => {
                return shape("a setting is expected, as `name: value`");
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn take_scalar(&mut self, text: Cow<'_, str>, style: ScalarStyle) {
        let is_plain = matches!(style, ScalarStyle::Plain);
        let is_null = is_plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
        if let Some(list) = &mut self.list {
            list.extend((!is_null).then(|| text.into_owned()));
        } else if self.key.is_none() {
            self.key = Some(text.into_owned());
        } else {
            self.finish(if is_null { String::new() } else { text.into_owned() }, is_plain);
        }
    }

    /// A key has its value; an empty one leaves the default.
    fn finish(&mut self, value: String, is_plain: bool) {
        let Some(key) = self.key.take() else { return };
        let (flag, origin) = match self.section {
            None => (Some(key.as_str()), key.clone()),
            Some(section) => {
                let flag = section.keys.iter().find(|(known, _)| *known == key).map(|(_, flag)| *flag);
                (flag, format!("{}.{key}", section.name))
            }
        };
        let known = flag.and_then(|name| Some((name, treatment_of(name)?)));
        let Some((name, (shape, treatment))) = known else {
            return self.problems.push(format!("{origin} is not a setting of etcd"));
        };
        if value.is_empty() {
            return;
        }
        let value = match shape {
            Some(Shape::Switch) if is_plain => as_boolean(value),
            _ if DURATIONS.contains(&name) && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                format!("{value}ns")
            }
            _ => value,
        };
        self.given.push(GivenFlag { name: name.to_owned(), value, treatment, origin });
    }
}

fn treatment_of(name: &str) -> Option<(Option<Shape>, FlagTreatment)> {
    match Flag::find(name) {
        // A file in a file.
        Some(flag) if flag.name == super::CONFIG_FILE => None,
        Some(flag) => Some((Some(flag.shape), flag.treatment)),
        None if name.starts_with(EXPERIMENTAL) => {
            Some((None, FlagTreatment::NoEffect("not known to this version")))
        }
        None => None,
    }
}

/// The words of YAML 1.1 for true and false.
fn as_boolean(value: String) -> String {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => "true".to_owned(),
        "false" | "no" | "off" | "n" => "false".to_owned(),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Result<Vec<(String, String)>, Vec<String>> {
        Ok(parse(text)?.into_iter().map(|given| (given.name, given.value)).collect())
    }

    fn expected(pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, Vec<String>> {
        Ok(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn settings_become_flags_and_empty_ones_none() {
        let text = "# a comment\nname: 'm1'\ndata-dir:\nquota-backend-bytes: 0\npre-vote: yes\n\
                    log-outputs: [stderr, /tmp/a]\nproxy: 'off'\ninitial-cluster: >-\n  m1=http://a:1,\n\nwal-dir: ~\n";
        let flags = [
            ("name", "m1"),
            ("quota-backend-bytes", "0"),
            ("pre-vote", "true"),
            ("log-outputs", "stderr,/tmp/a"),
            ("proxy", "off"),
            ("initial-cluster", "m1=http://a:1,"),
        ];
        assert_eq!(pairs(text), expected(&flags));
        assert_eq!(pairs(""), expected(&[]));
        assert_eq!(pairs("# nothing\n"), expected(&[]));
        assert_eq!(pairs("{\"name\": \"a\"}"), expected(&[("name", "a")]), "JSON is YAML");
    }

    #[test]
    fn sections_stand_for_the_flags_of_their_side() {
        let text = "client-transport-security:\n  cert-file: c.pem\n  client-cert-auth: true\n  auto-tls: no\n\
                    peer-transport-security:\n  cert-file: p.pem\n  allowed-cn:\n  allowed-hostname: [a, b]\n";
        let flags = [
            ("cert-file", "c.pem"),
            ("client-cert-auth", "true"),
            ("auto-tls", "false"),
            ("peer-cert-file", "p.pem"),
            ("peer-cert-allowed-hostname", "a,b"),
        ];
        assert_eq!(pairs(text), expected(&flags));
    }

    #[test]
    fn durations_are_text_or_nanoseconds() {
        let flags = [("watch-progress-notify-interval", "5000000000ns")];
        assert_eq!(pairs("watch-progress-notify-interval: 5000000000"), expected(&flags));
        assert_eq!(
            pairs("watch-progress-notify-interval: 5s"),
            expected(&[("watch-progress-notify-interval", "5s")])
        );
    }

    #[test]
    fn what_is_not_known_is_refused_by_its_name() {
        let problems = pairs("nome: a\npeer-transport-security:\n  cert: b\nconfig-file: c\n").unwrap_err();
        assert_eq!(
            problems,
            [
                "nome is not a setting of etcd",
                "peer-transport-security.cert is not a setting of etcd",
                "config-file is not a setting of etcd"
            ]
        );
        for text in ["name: {a: b}", "- a", "a", "name: [[a]]", "name: &x a\ndata-dir: *x", "name: 'a"] {
            assert!(pairs(text).is_err(), "{text}");
        }
    }
}
