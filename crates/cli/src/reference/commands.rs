//! The page of commands: what `--help` says of each, in the order of the list that `althing --help` prints.

use clap::Command;

const HEAD: &str = "\
What `althing COMMAND --help` prints. Client commands take etcdctl's flags and print what etcdctl prints. Exit codes: 0 when all \
went well, 2 for a mistake of the caller, 4 for what may pass by itself, 1 for the rest. The flags of `serve` are the \
[settings](settings.md); those of `etcd` are etcd's ([COMPAT.md](../../COMPAT.md)).\n\n";

/// Their flags have pages of their own.
const ELSEWHERE: [&str; 2] = ["serve", "etcd"];

pub fn render(mut command: Command) -> String {
    command.build();
    let mut text = HEAD.to_owned();
    for sub in visible(&command) {
        describe(sub, "althing", &mut text);
    }
    text
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

fn describe(command: &Command, parent: &str, text: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    text.push_str(&format!("## {name}\n\n{about}.\n\n"));
    if ELSEWHERE.contains(&command.get_name()) {
        return;
    }
    if visible(command).next().is_none() || takes_arguments(command) {
        let help = command.clone().term_width(100).render_long_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        let after_about = lines.iter().position(|line| line.starts_with("Usage:")).unwrap_or(0);
        text.push_str(&format!("```text\n{}\n```\n\n", lines[after_about..].join("\n")));
    }
    for sub in visible(command) {
        describe(sub, &name, text);
    }
}

/// As `lock NAME` beside `lock ls`.
fn takes_arguments(command: &Command) -> bool {
    command.get_positionals().next().is_some()
}
