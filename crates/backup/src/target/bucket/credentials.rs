//! Endpoint, region and credentials of a bucket, from the variables and files that other tools for S3 use: first the variables,
//! then the profile in the files of `~/.aws`.

use crate::error::Error;
use std::collections::BTreeMap;
use std::path::PathBuf;

const REGION_DEFAULT: &str = "us-east-1";

pub(super) struct BucketSettings {
    /// The address of another server than Amazon's.
    pub endpoint: Option<String>,
    pub region: String,
    pub credentials: Credentials,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub key_id: String,
    pub secret: String,
    pub session_token: Option<String>,
}

type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

impl BucketSettings {
    pub fn of_environment() -> Result<BucketSettings, Error> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let home = variable("HOME").map(PathBuf::from).unwrap_or_default();
        let file = |named: &str, usual: &str| {
            let path = variable(named).map_or_else(|| home.join(".aws").join(usual), PathBuf::from);
            std::fs::read_to_string(path).unwrap_or_default()
        };
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        BucketSettings::of(&variable, &credentials, &file("AWS_CONFIG_FILE", "config"))
    }

    fn of(variable: Variables<'_>, credentials: &str, config: &str) -> Result<BucketSettings, Error> {
        let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
        let secrets = section(credentials, &profile);
        let mut settings = section(config, &format!("profile {profile}"));
        settings.extend(section(config, &profile));
        let given = |names: &[&str], key: &str, of: &BTreeMap<String, String>| {
            names.iter().find_map(|name| variable(name)).or_else(|| of.get(key).cloned())
        };
        let missing = || {
            let message = "no credentials for the bucket: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";
            Error::Target(message.to_owned())
        };
        let credentials = Credentials {
            key_id: given(&["AWS_ACCESS_KEY_ID"], "aws_access_key_id", &secrets).ok_or_else(missing)?,
            secret: given(&["AWS_SECRET_ACCESS_KEY"], "aws_secret_access_key", &secrets)
                .ok_or_else(missing)?,
            session_token: given(&["AWS_SESSION_TOKEN"], "aws_session_token", &secrets),
        };
        Ok(BucketSettings {
            endpoint: given(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"], "endpoint_url", &settings),
            region: given(&["AWS_REGION", "AWS_DEFAULT_REGION"], "region", &settings)
                .unwrap_or_else(|| REGION_DEFAULT.to_owned()),
            credentials,
        })
    }
}

/// What a file says below `[name]`.
fn section(text: &str, name: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            inside = head.trim() == name;
        } else if inside
            && !line.starts_with('#')
            && let Some((key, value)) = line.split_once('=')
        {
            found.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "[default]\naws_access_key_id = one\naws_secret_access_key=two\n\n[other]\naws_access_key_id = three\naws_secret_access_key = four\naws_session_token = five\n";
    const CONFIG: &str = "[default]\nregion = eu-north-1\n[profile other]\nregion = eu-west-1\nendpoint_url = http://minio:9000\n";

    #[test]
    fn variables_come_before_files_and_a_profile_is_followed() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs: BTreeMap<String, String> =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            BucketSettings::of(&|name| pairs.get(name).cloned(), CREDENTIALS, CONFIG).unwrap()
        };
        let usual = of(&[]);
        assert_eq!((usual.credentials.key_id.as_str(), usual.region.as_str()), ("one", "eu-north-1"));
        let other = of(&[("AWS_PROFILE", "other")]);
        assert_eq!(other.endpoint.as_deref(), Some("http://minio:9000"));
        assert_eq!(other.credentials.session_token.as_deref(), Some("five"));
        let named =
            of(&[("AWS_ACCESS_KEY_ID", "six"), ("AWS_SECRET_ACCESS_KEY", "seven"), ("AWS_REGION", "r")]);
        assert_eq!((named.credentials.key_id.as_str(), named.credentials.secret.as_str()), ("six", "seven"));
        assert_eq!(named.region, "r");
    }

    #[test]
    fn without_credentials_the_error_says_what_to_set() {
        let error = BucketSettings::of(&|_| None, "", "").err().unwrap().to_string();
        assert!(error.contains("AWS_ACCESS_KEY_ID"), "{error}");
    }
}
