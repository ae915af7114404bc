//! `--print-config`: every setting with its value, where that came from, its unit and its meaning.
//! The text is valid TOML and, given back as a file, configures the same member.

use crate::config::setting::{Id, Kind};
use crate::config::values::{Origin, Values};
use std::fmt::Write;

/// Instead of a value that lets its reader into the cluster.
const HIDDEN: &str = "(not shown)";

/// The same for a page of the console; what is secret is not in it.
pub fn shown(values: &Values) -> Vec<api::ShownSetting> {
    let show = |id: &Id| {
        let (setting, value) = (id.setting(), values.get(*id));
        let is_hidden = *id == Id::JoinToken && !value.text.is_empty();
        api::ShownSetting {
            name: setting.name,
            value: if is_hidden { HIDDEN.to_owned() } else { value.text.clone() },
            origin: value.origin.to_string(),
            is_default: matches!(value.origin, Origin::Default | Origin::Derived),
            meaning: setting.meaning,
        }
    };
    Id::ALL.iter().map(show).collect()
}

pub fn print(values: &Values) -> String {
    let mut text = String::from(
        "# The settings in effect. Each is a flag of `althing serve`, a variable of the environment and a key\n\
         # of the file given with --config; flags win over variables, variables over the file.\n",
    );
    for id in Id::ALL {
        write_setting(&mut text, *id, values).expect("a String takes every write");
    }
    text
}

fn write_setting(text: &mut String, id: Id, values: &Values) -> std::fmt::Result {
    let setting = id.setting();
    let value = values.get(id);
    writeln!(text)?;
    writeln!(text, "# {}", setting.meaning)?;
    writeln!(text, "# Value: {}. Default: {}.", setting.shape(), setting.default_text())?;
    writeln!(text, "# From {}. Flag: --{}. Variable: {}.", value.origin, setting.name, setting.variable())?;
    match setting.kind {
        Kind::Number { .. } => writeln!(text, "{} = {}", setting.name, value.text),
        _ => writeln!(text, "{} = {}", setting.name, toml::Value::String(value.text.clone())),
    }
}

#[cfg(test)]
mod tests;
