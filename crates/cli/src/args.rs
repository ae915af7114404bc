//! The command line. The table of settings makes the flags of `serve`; all that is decided here is which
//! verb runs, and whether its arguments can be used.

use crate::bench::Bench;
use crate::completion::Completion;
use crate::config::check::{self, CheckedConfig, Problems};
use crate::config::gather::{self, File, Sources};
use crate::config::inherited;
use crate::config::print;
use crate::config::security;
use crate::config::setting::{self, Id, Setting};
use crate::config::values::Values;
use crate::dev::Dev;
use crate::man::ManPages;
use crate::reference::Reference;
use crate::verbs::Verb;
use crate::verify::Verify;
use crate::{etcd, serve, verbs};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, Subcommand};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The exit code for a command line or configuration that cannot be used.
pub const USAGE: u8 = 2;

const ABOUT: &str = "A strongly consistent coordination store that speaks etcd v3.";

/// What a newcomer needs stands before the list of commands.
const START: &str = "\
To start:
  althing serve                        a complete single node on 127.0.0.1:2379
  althing put greeting hello           as does `etcdctl put`: any etcd v3 client can use it
  althing get greeting
  althing data put user_1 Alice        the leaderless store beside it, also on http://127.0.0.1:8080
  althing dev                          a cluster of three on this machine
  althing serve --print-config         every setting with its value and meaning";

const SERVE_AFTER_HELP: &str = "\
Every setting may also come from the environment (--data-dir as ALTHING_DATA_DIR) or from a TOML file given
with --config (data-dir = \"...\"). Flags win over the environment, the environment over the file.

Example: a cluster of three on one machine, each member in a terminal of its own
  althing serve --name a --data-dir a --client-addr 127.0.0.1:2379 --peer-addr 127.0.0.1:2380 --http-addr 127.0.0.1:8080 \\
      --initial-cluster a=127.0.0.1:2380,b=127.0.0.1:2480,c=127.0.0.1:2580
  althing serve --name b --data-dir b --client-addr 127.0.0.1:2479 --peer-addr 127.0.0.1:2480 --http-addr 127.0.0.1:8081 \\
      --initial-cluster a=127.0.0.1:2380,b=127.0.0.1:2480,c=127.0.0.1:2580
  althing serve --name c --data-dir c --client-addr 127.0.0.1:2579 --peer-addr 127.0.0.1:2580 --http-addr 127.0.0.1:8082 \\
      --initial-cluster a=127.0.0.1:2380,b=127.0.0.1:2480,c=127.0.0.1:2580

HTTP_PORT, GRPC_PORT, SEED_IP and SEED_PORT are honoured as well: with HTTP_PORT set, REST is on it, clients of etcd and
other nodes share GRPC_PORT, data lies in althing-data/HTTP_PORT, and SEED_IP:SEED_PORT is the node to join.
  HTTP_PORT=8080 GRPC_PORT=9090 althing serve
  HTTP_PORT=8081 GRPC_PORT=9091 SEED_IP=127.0.0.1 SEED_PORT=9090 althing serve

SIGTERM or SIGINT lets requests under way finish and then stops; a second one stops at once.";

pub fn run() -> ExitCode {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    match words.as_slice() {
        // etcd's flags have a syntax of their own.
        [program, flags @ ..] if etcd::is_called(program) => return etcd::run(flags.to_vec()),
        [_, verb, flags @ ..] if verb == "etcd" => return etcd::run(flags.to_vec()),
        _ => {}
    }
    let mut words: Vec<OsString> = std::env::args_os().collect();
    // The variables of the first design start a node, as they did.
    if words.len() == 1 && inherited::is_set(&|name| std::env::var(name).ok()) {
        words.push("serve".into());
    }
    let matches = command().get_matches_from(options_behind_the_verb(words));
    match matches.subcommand() {
        Some(("serve", matches)) => run_serve(matches),
        _ => match OtherCommand::from_arg_matches(&matches) {
            Ok(OtherCommand::Bench(bench)) => bench.run(),
            Ok(OtherCommand::Dev(dev)) => dev.run(),
            Ok(OtherCommand::Completion(completion)) => completion.run(command()),
            Ok(OtherCommand::ManPages(pages)) => pages.run(command()),
            Ok(OtherCommand::Verify(verify)) => verify.run(),
            Ok(OtherCommand::Reference(reference)) => reference.run(command()),
            Ok(OtherCommand::Verb(verb)) => verbs::run(verb),
            Err(error) => error.exit(),
        },
    }
}

/// Everything but the member itself.
#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of it, for a moment")]
enum OtherCommand {
    /// Runs a cluster on this machine, to try things out
    Dev(Dev),
    Bench(Bench),
    /// Checks every checksum in the data directory of a member that does not run
    Verify(Verify),
    /// Prints a completion script for a shell
    Completion(Completion),
    /// Writes a page of the manual for each command
    #[command(name = "man")]
    ManPages(ManPages),
    /// Writes the reference pages of the documents
    #[command(hide = true)]
    Reference(Reference),
    #[command(flatten)]
    Verb(Verb),
}

pub fn command() -> Command {
    let command = Command::new("althing")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(serve_command())
        .subcommand(etcd_command());
    // The list of commands has words of its own, which are not about the whole.
    let command = OtherCommand::augment_subcommands(command).about(ABOUT).long_about(None).before_help(START);
    command.mut_subcommands(switches_with_values)
}

/// etcdctl's switches may have a value (`--prefix=true`), so ours may.
fn switches_with_values(command: Command) -> Command {
    let command = command.mut_args(|arg| match arg.get_action() {
        ArgAction::SetTrue => arg
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .value_name("BOOL")
            .value_parser(clap::value_parser!(bool))
            .default_value("false")
            .default_missing_value("true")
            .hide_default_value(true)
            .hide_possible_values(true),
        _ => arg,
    });
    command.mut_subcommands(switches_with_values)
}

/// The options of all client verbs, which may stand before them.
const OPTIONS_WITH_VALUE: [&str; 11] = [
    "--endpoints",
    "--http-endpoints",
    "--command-timeout",
    "--dial-timeout",
    "--write-out",
    "-w",
    "--user",
    "--password",
    "--cacert",
    "--cert",
    "--key",
];

/// etcdctl takes its options also before the verb (`--endpoints x get a`); they mean the same behind it.
fn options_behind_the_verb(mut words: Vec<OsString>) -> Vec<OsString> {
    let mut end = 1;
    while let Some(word) = words.get(end).and_then(|word| word.to_str()) {
        let (name, has_value) = (word.split('=').next().unwrap_or(word), word.contains('='));
        end += match name {
            "--hex" | "--insecure-transport" | "--insecure-skip-tls-verify" => 1,
            name if OPTIONS_WITH_VALUE.contains(&name) => 2 - usize::from(has_value),
            _ => break,
        };
    }
    // A verb of two words is followed by both.
    let word = |nth: usize| words.get(nth).and_then(|word| word.to_str());
    let verb_words = match (word(end), word(end + 1)) {
        (Some("cluster" | "endpoint" | "lease" | "member" | "alarm" | "snapshot"), _) => 2,
        (Some("data" | "crdt" | "conflicts" | "import" | "export"), _) => 2,
        (Some("lock"), Some("ls" | "inspect" | "update")) => 2,
        _ => 1,
    };
    if end > 1 && end + verb_words <= words.len() {
        words[1..end + verb_words].rotate_left(end - 1);
    }
    words
}

/// For the list of verbs; its arguments are parsed elsewhere.
fn etcd_command() -> Command {
    Command::new("etcd")
        .about("Runs a member with etcd's own flags; so does a link called `etcd`")
        .arg(Arg::new("flags").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true))
}

fn serve_command() -> Command {
    Command::new("serve")
        .about("Runs a member of a cluster, or a single node")
        .after_help(SERVE_AFTER_HELP)
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .help("Read settings from this TOML file (or ALTHING_CONFIG)"),
        )
        .arg(
            Arg::new("print-config")
                .long("print-config")
                .action(ArgAction::SetTrue)
                .help("Print every setting with its value, origin, unit and meaning as TOML, and stop"),
        )
        .args(Id::ALL.iter().map(|id| flag(id.setting())))
}

fn flag(setting: &'static Setting) -> Arg {
    let arg = Arg::new(setting.name);
    let arg = if setting.is_boolean() { arg.num_args(0..=1).default_missing_value("true") } else { arg };
    arg.long(setting.name)
        .value_name(setting.placeholder())
        .help(format!("{} [default: {}]", setting.meaning, setting.default_text()))
        // A negative number is a value: the check explains better than the parser what is wrong with it.
        .allow_negative_numbers(true)
}

fn run_serve(matches: &ArgMatches) -> ExitCode {
    let (values, checked) = match configure(matches) {
        Ok(configured) => configured,
        Err(problems) => return refuse(&problems),
    };
    if matches.get_flag("print-config") {
        let printed = std::io::stdout().write_all(print::print(&values).as_bytes());
        return if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    serve::run(checked)
}

fn configure(matches: &ArgMatches) -> Result<(Values, CheckedConfig), Problems> {
    let variable = |name: &str| std::env::var(name).ok();
    let flag = |name: &str| matches.get_one::<String>(name).cloned();
    let path = flag("config").or_else(|| variable("ALTHING_CONFIG")).map(PathBuf::from);
    let file = path.map(read_file).transpose()?;
    let values = gather::gather(&Sources { flag: &flag, variable: &variable, file })
        .map_err(|error| Problems(vec![error.to_string()]))?;
    let mut checked = check::check(&values)?;
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    checked.warnings.extend(unknown_variables(names));
    refuse_etcd_directory(&checked.config.data_dir)?;
    security::take_environment(&mut checked.config, variable(security::CLUSTER_SECRET))
        .map_err(|problem| Problems(vec![problem]))?;
    Ok((values, checked))
}

/// Variables of ours that are no settings.
const OTHER_VARIABLES: [&str; 14] = [
    "ALTHING_CONFIG",
    "ALTHING_CLUSTER_SECRET",
    "ALTHING_ENDPOINTS",
    "ALTHING_HTTP_ENDPOINTS",
    "ALTHING_USER",
    "ALTHING_PASSWORD",
    "ALTHING_TOKEN",
    "ALTHING_FENCE",
    "ALTHING_FENCING_TOKEN",
    "ALTHING_LOCK_NAME",
    "ALTHING_LOCK_KEY",
    "ALTHING_CACERT",
    "ALTHING_CERT",
    "ALTHING_KEY",
];

/// A word about each variable that looks like a setting and is none.
fn unknown_variables(names: impl Iterator<Item = String>) -> Vec<String> {
    let is_known = |name: &str| {
        OTHER_VARIABLES.contains(&name) || Id::ALL.iter().any(|id| id.setting().variable() == name)
    };
    let unknown = names.filter(|name| name.starts_with("ALTHING_") && !is_known(name));
    let told = unknown.map(|name| {
        let wanted = name["ALTHING_".len()..].to_lowercase().replace('_', "-");
        let hint = setting::nearest(&wanted).and_then(Setting::find);
        let hint = hint.map(|id| format!("; did you mean {}?", id.setting().variable())).unwrap_or_default();
        format!("the variable {name} is no setting, and is ignored{hint}")
    });
    told.collect()
}

/// A member that starts beside etcd's files would look empty.
fn refuse_etcd_directory(path: &Path) -> Result<(), Problems> {
    if !path.join("member/wal").is_dir() || path.join("identity").exists() {
        return Ok(());
    }
    let path = path.display();
    Err(Problems(vec![format!(
        "{path} is a data directory of etcd: save it by `etcdctl snapshot save FILE`, restore it by `althing snapshot restore \
         FILE --data-dir DIR`, and start with that --data-dir (or copy from a running etcd by `althing import etcd`)"
    )]))
}

fn read_file(path: PathBuf) -> Result<File, Problems> {
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(File { path, text }),
        Err(error) => Err(Problems(vec![format!("cannot read {}: {error}", path.display())])),
    }
}

fn refuse(Problems(problems): &Problems) -> ExitCode {
    let mut text = String::from("althing: the configuration cannot be used\n");
    for problem in problems {
        text.push_str(&format!("  - {problem}\n"));
    }
    text.push_str("`althing serve --help` explains every setting.\n");
    // When standard error is closed, the exit code is enough.
    let _ = std::io::stderr().write_all(text.as_bytes());
    ExitCode::from(USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        options_behind_the_verb(words).join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn options_may_stand_before_the_verb() {
        assert_eq!(moved("althing --endpoints x get a"), "althing get --endpoints x a");
        assert_eq!(moved("althing -w=json --hex get a"), "althing get -w=json --hex a");
        assert_eq!(moved("althing --cacert c --user=u get a"), "althing get --cacert c --user=u a");
        assert_eq!(moved("althing --endpoints=x endpoint status"), "althing endpoint status --endpoints=x");
        assert_eq!(moved("althing -w json lease grant 5"), "althing lease grant -w json 5");
        assert_eq!(moved("althing -w json lock ls"), "althing lock ls -w json");
        assert_eq!(moved("althing -w json lock a b"), "althing lock -w json a b");
        for unmoved in
            ["althing", "althing get -w json", "althing --help", "althing --endpoints", "althing -w json"]
        {
            assert_eq!(moved(unmoved), unmoved);
        }
    }

    #[test]
    fn variables_that_are_no_settings_are_named() {
        let names = ["ALTHING_DATA_DIR", "ALTHING_ENDPOINTS", "PATH", "ALTHING_DATADIR", "ALTHING_XYZZY"]
            .into_iter()
            .chain(["ALTHING_CACERT", "ALTHING_CERT", "ALTHING_KEY"]);
        let told = unknown_variables(names.map(str::to_owned));
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("ALTHING_DATADIR") && told[0].contains("ALTHING_DATA_DIR?"), "{told:?}");
    }

    #[test]
    fn help_begins_with_how_to_start() {
        let help = command().render_help().to_string();
        assert!(help.starts_with("To start:\n  althing serve"), "{help}");
        assert!(help.contains(ABOUT) && !help.contains("Everything but"), "{help}");
    }

    #[test]
    fn a_directory_of_etcd_is_refused_with_a_way_out() {
        let dir = tempfile::tempdir().unwrap();
        assert!(refuse_etcd_directory(dir.path()).is_ok());
        std::fs::create_dir_all(dir.path().join("member/wal")).unwrap();
        let Err(Problems(problems)) = refuse_etcd_directory(dir.path()) else { panic!("it is taken") };
        assert!(problems[0].contains("althing snapshot restore"), "{problems:?}");
    }

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }
}
