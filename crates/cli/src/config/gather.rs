//! Gathers a value for every setting: flags before environment before file before default.
//! The places are handed in as values, so that nothing here reads the process; what cannot be read from the
//! file, or is not known, is refused by name.

use crate::client::duration;
use crate::config::inherited;
use crate::config::setting::{self, Fallback, Id, Kind, Setting};
use crate::config::values::{Origin, Value, Values};
use std::path::{Path, PathBuf};

/// The value for no address; the advertised one is then none as well.
pub const NONE: &str = "none";
const NOWHERE: &str = "localhost:0";

/// The given values, by source.
pub struct Sources<'a> {
    pub flag: &'a dyn Fn(&str) -> Option<String>,
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    pub file: Option<File>,
}

/// A configuration file, read but not yet understood.
pub struct File {
    pub path: PathBuf,
    pub text: String,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{} is not valid TOML: {reason}", path.display())]
    NotToml { path: PathBuf, reason: String },
    #[error("{}: unknown setting \"{name}\"{}", path.display(), suggest(name))]
    Unknown { path: PathBuf, name: String },
    #[error("{}: {name} must be a string or a whole number, not {found}", path.display())]
    WrongType { path: PathBuf, name: String, found: &'static str },
}

fn suggest(name: &str) -> String {
    match setting::nearest(name) {
        Some(known) => format!("; did you mean \"{known}\"?"),
        None => "; `althing serve --print-config` lists all settings".to_owned(),
    }
}

const TOKEN: &str = "althing";
const REGION_DEFAULT: &str = "default";

pub fn gather(sources: &Sources<'_>) -> Result<Values, Error> {
    let from_file = match &sources.file {
        Some(file) => read_file(file)?,
        None => vec![],
    };
    let mut values = Values(Id::ALL.iter().map(|id| pick(*id, sources, &from_file)).collect());
    derive(&mut values);
    Ok(values)
}

/// Uses the given values as they are, and the defaults for the rest.
pub fn from_given(given: &[(Id, Value)]) -> Values {
    let nothing = |_: &str| None;
    let sources = Sources { flag: &nothing, variable: &nothing, file: None };
    let mut values = Values(Id::ALL.iter().map(|id| pick(*id, &sources, given)).collect());
    derive(&mut values);
    values
}

fn pick(id: Id, sources: &Sources<'_>, from_file: &[(Id, Value)]) -> Value {
    let value = pick_given(id, sources, from_file);
    match in_milliseconds(id.setting().kind, &value.text) {
        Some(text) => Value { text, ..value },
        None => value,
    }
}

/// A time may be written as a duration; the rest reads milliseconds.
fn in_milliseconds(kind: Kind, text: &str) -> Option<String> {
    let Kind::Number { unit: "milliseconds", .. } = kind else { return None };
    if text.parse::<u64>().is_ok() {
        return None;
    }
    let given = duration::parse(text).ok()?;
    given.subsec_nanos().is_multiple_of(1_000_000).then(|| given.as_millis().to_string())
}

fn pick_given(id: Id, sources: &Sources<'_>, from_file: &[(Id, Value)]) -> Value {
    let setting = id.setting();
    let variable = setting.variable();
    if let Some(text) = (sources.flag)(setting.name) {
        return Value { text, origin: Origin::Flag(format!("--{}", setting.name)) };
    }
    if let Some(text) = (sources.variable)(&variable) {
        return Value { text, origin: Origin::Environment(variable) };
    }
    if let Some(value) = inherited::value_of(id, sources.variable) {
        return value;
    }
    if let Some((_, value)) = from_file.iter().find(|(known, _)| *known == id) {
        return value.clone();
    }
    let origin = match setting.default {
        Fallback::Derived(_) => Origin::Derived,
        _ => Origin::Default,
    };
    Value { text: setting.default_text(), origin }
}

fn read_file(file: &File) -> Result<Vec<(Id, Value)>, Error> {
    let table: toml::Table = file.text.parse().map_err(|error: toml::de::Error| Error::NotToml {
        path: file.path.clone(),
        reason: error.to_string(),
    })?;
    table.into_iter().map(|(name, value)| read_entry(&file.path, name, value)).collect()
}

fn read_entry(path: &Path, name: String, value: toml::Value) -> Result<(Id, Value), Error> {
    let Some(id) = Setting::find(&name) else {
        return Err(Error::Unknown { path: path.to_owned(), name });
    };
    let text = match value {
        toml::Value::String(text) => text,
        toml::Value::Integer(number) => number.to_string(),
        other => {
            return Err(Error::WrongType { path: path.to_owned(), name, found: other.type_str() });
        }
    };
    Ok((id, Value { text, origin: Origin::File(path.to_owned()) }))
}

/// Fills in settings that follow others. An advertised address is the one in the initial cluster.
fn derive(values: &mut Values) {
    let client_addr = values.text(Id::ClientAddr).to_owned();
    fill(values, Id::AdvertiseClient, client_addr);
    let http_addr = values.text(Id::HttpAddr).to_owned();
    fill(values, Id::AdvertiseHttp, if http_addr == NONE { NOWHERE.to_owned() } else { http_addr });
    let listed = match values.get(Id::InitialCluster).origin {
        Origin::Derived => None,
        _ => own_address(values.text(Id::InitialCluster), values.text(Id::Name)),
    };
    let peer_addr = listed.unwrap_or_else(|| values.text(Id::PeerAddr).to_owned());
    fill(values, Id::AdvertisePeer, peer_addr);
    let advertise_peer = values.text(Id::AdvertisePeer).to_owned();
    fill(values, Id::AdvertiseRegion, advertise_peer);
    let token = token_of(values.text(Id::Region));
    fill(values, Id::ClusterToken, token);
    let alone = format!("{}={}", values.text(Id::Name), values.text(Id::AdvertisePeer));
    fill(values, Id::InitialCluster, alone);
}

/// The ids of members are made of their names and the token. Members of two regions may well have the same names, and
/// must not have the same ids.
pub fn token_of(region: &str) -> String {
    match region {
        REGION_DEFAULT => TOKEN.to_owned(),
        region => format!("{TOKEN}.{region}"),
    }
}

fn fill(values: &mut Values, id: Id, text: String) {
    let value = &mut values.0[id as usize];
    if value.origin == Origin::Derived {
        value.text = text;
    }
}

fn own_address(members: &str, name: &str) -> Option<String> {
    let mut listed = members.split(',').filter_map(|member| member.trim().split_once('='));
    listed.find(|(listed, _)| *listed == name).map(|(_, address)| address.to_owned())
}

#[cfg(test)]
mod tests;
