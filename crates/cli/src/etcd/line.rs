//! Parses a command line as Go's `flag` package does, and takes missing flags from the environment.
//! `-flag` and `--flag` are the same; a value stands behind an equal sign or is the next word, but a switch
//! takes none that is a word of its own. Given twice, the last one counts.

use super::flags::{EXPERIMENTAL, Flag, FlagTreatment, Shape, TABLE};

pub enum ParsedLine {
    Help,
    Version,
    Flags(Vec<GivenFlag>),
}

/// One flag with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenFlag {
    pub name: String,
    pub value: String,
    /// Its treatment, by the table.
    pub treatment: FlagTreatment,
    /// How the user wrote it: `--name` or `ETCD_NAME`.
    pub origin: String,
}

pub fn read(args: &[String], variable: &dyn Fn(&str) -> Option<String>) -> Result<ParsedLine, String> {
    let mut given: Vec<GivenFlag> = vec![];
    let mut words = args.iter().peekable();
    while let Some(word) = words.next() {
        let Some(text) = flag_text(word) else { return Err(refuse_word(word)) };
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        match name {
            "h" | "help" => return Ok(ParsedLine::Help),
            "version" => return Ok(ParsedLine::Version),
            "" => break,
            _ => {}
        }
        let (shape, treatment) = lookup(name)?;
        let value = match (value, shape) {
            (Some(value), _) => value,
            (None, ValueRule::Nothing) => "true".to_owned(),
            (None, ValueRule::Next) => words.next().ok_or_else(|| format!("--{name} needs a value"))?.clone(),
            (None, ValueRule::NextUnlessFlag) => match words.next_if(|next| !next.starts_with('-')) {
                Some(value) => value.clone(),
                None => "true".to_owned(),
            },
        };
        given.retain(|earlier| earlier.name != name);
        given.push(GivenFlag { name: name.to_owned(), value, treatment, origin: format!("--{name}") });
    }
    given.extend(from_environment(&given, variable));
    Ok(ParsedLine::Flags(given))
}

/// Whether a flag takes the word behind it.
enum ValueRule {
    Nothing,
    Next,
    /// A flag that is not in the table: a word that looks like a value is one.
    NextUnlessFlag,
}

fn lookup(name: &str) -> Result<(ValueRule, FlagTreatment), String> {
    match Flag::find(name) {
        Some(Flag { shape: Shape::Switch, treatment, .. }) => Ok((ValueRule::Nothing, *treatment)),
        Some(Flag { shape: Shape::Value, treatment, .. }) => Ok((ValueRule::Next, *treatment)),
        None if name.starts_with(EXPERIMENTAL) => {
            Ok((ValueRule::NextUnlessFlag, FlagTreatment::NoEffect("not known to this version")))
        }
        None => Err(format!("flag provided but not defined: -{name}")),
    }
}

/// The text after one or two dashes.
fn flag_text(word: &str) -> Option<&str> {
    word.strip_prefix("--").or_else(|| word.strip_prefix('-').filter(|rest| !rest.is_empty()))
}

fn refuse_word(word: &str) -> String {
    match word {
        "gateway" | "grpc-proxy" => format!("\"{word}\" is not there: this is a member, not a proxy"),
        _ => format!("\"{word}\" is not a valid flag"),
    }
}

/// A flag of the command line wins; an empty variable is none.
fn from_environment(given: &[GivenFlag], variable: &dyn Fn(&str) -> Option<String>) -> Vec<GivenFlag> {
    let open = TABLE.iter().filter(|flag| !given.iter().any(|given| given.name == flag.name));
    open.filter_map(|flag| {
        let origin = flag.variable();
        let value = variable(&origin).filter(|value| !value.is_empty())?;
        Some(GivenFlag { name: flag.name.to_owned(), value, treatment: flag.treatment, origin })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(line: &str, environment: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        match read(&args, &variable)? {
            ParsedLine::Flags(given) => {
                Ok(given.into_iter().map(|given| (given.name, given.value)).collect())
            }
            _ => Err("help or version".to_owned()),
        }
    }

    fn pairs(pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
        Ok(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn one_dash_or_two_with_or_without_an_equal_sign() {
        let expected = pairs(&[("name", "a"), ("data-dir", "d")]);
        assert_eq!(flags("-name a -data-dir=d", &[]), expected);
        assert_eq!(flags("--name=a --data-dir d", &[]), expected);
    }

    #[test]
    fn a_switch_takes_no_word_and_a_value_may_look_like_a_flag() {
        assert_eq!(flags("--enable-pprof --name a", &[]), pairs(&[("enable-pprof", "true"), ("name", "a")]));
        assert_eq!(flags("--pre-vote=false", &[]), pairs(&[("pre-vote", "false")]));
        assert_eq!(flags("--quota-backend-bytes -1", &[]), pairs(&[("quota-backend-bytes", "-1")]));
        assert_eq!(
            flags("--enable-pprof true", &[]),
            Err("\"true\" is not a valid flag".to_owned()),
            "as Go has it"
        );
    }

    #[test]
    fn an_unknown_experiment_is_taken_with_or_without_a_value() {
        let expected = pairs(&[("experimental-x", "1s"), ("experimental-y", "true"), ("name", "a")]);
        assert_eq!(flags("--experimental-x 1s --experimental-y --name a", &[]), expected);
    }

    #[test]
    fn the_last_one_counts_and_the_command_line_wins_over_the_environment() {
        assert_eq!(flags("--name a --name b", &[("ETCD_NAME", "c")]), pairs(&[("name", "b")]));
        let environment = [("ETCD_DATA_DIR", "d"), ("ETCD_LOG_LEVEL", "")];
        assert_eq!(flags("--name a", &environment), pairs(&[("name", "a"), ("data-dir", "d")]));
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        assert_eq!(flags("--nome a", &[]), Err("flag provided but not defined: -nome".to_owned()));
        assert_eq!(flags("--name", &[]), Err("--name needs a value".to_owned()));
        assert!(flags("gateway start", &[]).unwrap_err().contains("not a proxy"));
        assert!(flags("surplus", &[]).unwrap_err().contains("surplus"));
    }
}
