//! The options that every client verb has: endpoints, timeouts, output format.

use super::{Client, Error, TlsOptions, duration, prompt};
use ::client::{Config, Login, Tls};
use clap::{Args, ValueEnum};
use std::sync::OnceLock;
use std::time::Duration;

const COMMAND_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// For calls that wait by design: no terminal session lasts longer.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);
const ENDPOINT_DEFAULT: &str = "127.0.0.1:2379";
/// Where endpoints are looked for when none are given, the first that is set.
const ENDPOINT_VARIABLES: [&str; 2] = ["ALTHING_ENDPOINTS", "ETCDCTL_ENDPOINTS"];

const USER_VARIABLES: [&str; 2] = ["ALTHING_USER", "ETCDCTL_USER"];
const PASSWORD_VARIABLES: [&str; 2] = ["ALTHING_PASSWORD", "ETCDCTL_PASSWORD"];

/// The password of --user, once it was typed: a verb may call several members.
static TYPED: OnceLock<String> = OnceLock::new();

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection and output")]
pub struct Options {
    /// Members to ask; the first that answers is used [default: $ALTHING_ENDPOINTS, $ETCDCTL_ENDPOINTS or 127.0.0.1:2379]
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    endpoints: Vec<String>,
    /// The user that calls, with or without the password [default: $ALTHING_USER or $ETCDCTL_USER]
    #[arg(long, value_name = "NAME[:PASSWORD]")]
    user: Option<String>,
    /// The password, if it is not part of --user [default: $ALTHING_PASSWORD or $ETCDCTL_PASSWORD; else a prompt]
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
    #[command(flatten)]
    tls: TlsOptions,
    /// How long the answer may take [default: 5s, and unlimited for calls that wait]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    command_timeout: Option<Duration>,
    /// How long it may take to find an endpoint that can be reached
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse)]
    pub dial_timeout: Duration,
    /// The format of the output
    #[arg(short = 'w', long, value_name = "FORMAT", value_enum, default_value = "simple")]
    pub write_out: Format,
    /// Print keys and values as \x.. in the simple format
    #[arg(long)]
    pub hex: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Simple,
    Json,
    Fields,
    Table,
}

impl Options {
    /// Connects with the first call.
    pub fn client(&self) -> Result<Client, Error> {
        self.client_of(self.endpoints())
    }

    /// The same for a call that waits until something is done, without a timeout.
    pub fn patient(&self) -> Options {
        Options { command_timeout: Some(self.command_timeout.unwrap_or(PATIENCE)), ..self.clone() }
    }

    pub fn command_timeout(&self) -> Duration {
        self.command_timeout.unwrap_or(COMMAND_TIMEOUT_DEFAULT)
    }

    /// The same for other endpoints.
    pub fn client_of(&self, endpoints: Vec<String>) -> Result<Client, Error> {
        let (dial_timeout, call_timeout) = (self.dial_timeout, self.command_timeout());
        let tls = self.tls(&endpoints)?;
        let login = login_of(&self.user, &self.password)?;
        Ok(Client::new(Config { endpoints, dial_timeout, call_timeout, login, tls })?)
    }

    /// The TLS settings for these endpoints, if they use TLS.
    pub fn tls(&self, endpoints: &[String]) -> Result<Option<Tls>, Error> {
        let Some(files) = self.tls.files_for(endpoints)? else { return Ok(None) };
        let pem = files.pem()?;
        Ok(Some(Tls { roots: pem.roots, identity: pem.identity }))
    }

    fn endpoints(&self) -> Vec<String> {
        let mut endpoints = self.endpoints.clone();
        for variable in ENDPOINT_VARIABLES {
            if endpoints.is_empty() {
                let listed = std::env::var(variable).unwrap_or_default();
                endpoints = listed.split(',').map(|endpoint| endpoint.trim().to_owned()).collect();
                endpoints.retain(|endpoint| !endpoint.is_empty());
            }
        }
        if endpoints.is_empty() {
            endpoints.push(ENDPOINT_DEFAULT.to_owned());
        }
        endpoints
    }
}

/// The login of --user and --password, or of their variables. With --password the name is taken as it is,
/// colons and all.
pub fn login_of(user: &Option<String>, password: &Option<String>) -> Result<Option<Login>, Error> {
    let given = |flag: &Option<String>, variables: [&str; 2]| {
        let set = |variable: &&str| std::env::var(variable).ok().filter(|text| !text.is_empty());
        flag.clone().or_else(|| variables.iter().find_map(set))
    };
    let Some(user) = given(user, USER_VARIABLES) else { return Ok(None) };
    if let Some(password) = given(password, PASSWORD_VARIABLES) {
        return Ok(Some(Login { user, password }));
    }
    match user.split_once(':') {
        Some((user, password)) => Ok(Some(Login { user: user.to_owned(), password: password.to_owned() })),
        None if prompt::is_possible() => {
            let password = match TYPED.get() {
                Some(password) => password.clone(),
                None => {
                    let password = prompt::ask(&user)?;
                    TYPED.get_or_init(|| password).clone()
                }
            };
            Ok(Some(Login { user, password }))
        }
        None => Err(Error::Usage(format!("the password of \"{user}\" is not given: use --password"))),
    }
}
