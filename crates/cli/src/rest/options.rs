//! The options of the verbs that use REST, and their calls: the endpoints are tried in turn until one answers.
//! A write carries an id of its own, so that a retry elsewhere does not execute it twice.

use super::http::{Failure, HttpEndpoint, Request, RestAnswer, RestStream, exchange, open, percent_encode};
use crate::client::{Error, TlsOptions, duration, login_of};
use crate::request_id;
use ::client::Login;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::time::Duration;

const ENDPOINT_DEFAULT: &str = "127.0.0.1:8080";

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection and output")]
pub struct RestOptions {
    /// Nodes to ask; the first that answers is used [default: $ALTHING_HTTP_ENDPOINTS or 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',')]
    http_endpoints: Vec<String>,
    /// The user that calls, with or without the password [default: $ALTHING_USER or $ETCDCTL_USER]
    #[arg(long, value_name = "NAME[:PASSWORD]")]
    user: Option<String>,
    /// The password, if it is not part of --user [default: $ALTHING_PASSWORD or $ETCDCTL_PASSWORD]
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
    /// The token of the caller, which `althing auth login` prints [default: $ALTHING_TOKEN]
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["user", "password"])]
    token: Option<String>,
    #[command(flatten)]
    tls: TlsOptions,
    /// How long the answer may take
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    command_timeout: Duration,
    /// How long it may take to reach a node
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse)]
    dial_timeout: Duration,
    /// The format of the output
    #[arg(short = 'w', long, value_name = "FORMAT", value_enum, default_value = "simple")]
    pub write_out: Format,
    /// The namespace
    #[arg(long, value_name = "NAME")]
    ns: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Simple,
    Json,
    Table,
}

/// One request, still without the common headers.
pub struct RestCall {
    pub method: &'static str,
    pub path: String,
    pub query: Vec<(&'static str, String)>,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// A write without a request id: one that may have happened is not sent again.
    pub is_sent_once: bool,
}

impl RestCall {
    pub fn new(method: &'static str, path: impl Into<String>) -> RestCall {
        let (query, headers, body) = (Vec::new(), Vec::new(), Vec::new());
        RestCall { method, path: path.into(), query, headers, body, is_sent_once: false }
    }

    /// A path that ends with a key.
    pub fn of_key(method: &'static str, path: &str, key: &str) -> RestCall {
        RestCall::new(method, format!("{path}{}", percent_encode(key)))
    }

    pub fn query(mut self, name: &'static str, value: Option<impl ToString>) -> RestCall {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    pub fn header(mut self, name: &'static str, value: Option<impl ToString>) -> RestCall {
        self.headers.extend(value.map(|value| (name, value.to_string())));
        self
    }

    pub fn json(mut self, body: &Value) -> RestCall {
        self.body = body.to_string().into_bytes();
        self.header("content-type", Some("application/json"))
    }

    /// For writes that take no request id.
    pub fn sent_once(self) -> RestCall {
        RestCall { is_sent_once: true, ..self }
    }
}

impl RestOptions {
    pub async fn ask(&self, call: RestCall) -> Result<RestAnswer, Error> {
        let (is_write, is_sent_once) = (call.method != "GET", call.is_sent_once);
        let request = self.request_of(call, is_write && !is_sent_once)?;
        let mut trouble = String::from("no endpoint was given");
        let endpoints = self.endpoints();
        let tls = self.tls.files_for(&endpoints)?.map(|files| files.config(&[b"http/1.1"])).transpose()?;
        for endpoint in endpoints {
            let (address, sealed) = address_of(&endpoint, tls.is_some());
            let place = HttpEndpoint { address, tls: tls.clone().filter(|_| sealed) };
            match exchange(&place, &request, self.dial_timeout, self.command_timeout).await {
                Ok(answer) if answer.status < 400 => return Ok(answer),
                // Another node may reach the replicas that this one does not.
                Ok(answer) if answer.status == 503 => trouble = format!("{address}: {}", words_of(&answer)),
                Ok(answer) => return Err(Error::Rest { status: answer.status, message: words_of(&answer) }),
                Err(Failure::NotSent(error)) => trouble = format!("{address}: {error}"),
                Err(Failure::Unanswered(error)) => {
                    trouble = format!("{address}: {error}");
                    if is_sent_once {
                        break;
                    }
                }
            }
        }
        Err(Error::RestUnavailable(trouble))
    }

    /// Opens a stream at the first endpoint that has it, beginning with the `nth`.
    pub async fn open(&self, call: RestCall, nth: usize) -> Result<RestStream, Error> {
        let request = self.request_of(call, false)?;
        let mut trouble = String::from("no endpoint was given");
        let mut endpoints = self.endpoints();
        let first = nth % endpoints.len().max(1);
        endpoints.rotate_left(first);
        let tls = self.tls.files_for(&endpoints)?.map(|files| files.config(&[b"http/1.1"])).transpose()?;
        for endpoint in endpoints {
            let (address, sealed) = address_of(&endpoint, tls.is_some());
            let place = HttpEndpoint { address, tls: tls.clone().filter(|_| sealed) };
            match open(&place, &request, self.dial_timeout).await {
                Ok(stream) if stream.status < 400 => return Ok(stream),
                Ok(stream) if matches!(stream.status, 429 | 503) => {
                    trouble = format!("{address}: status {}", stream.status);
                }
                Ok(mut stream) => {
                    let body = stream.more(self.command_timeout).await.ok().flatten().unwrap_or_default();
                    return Err(Error::Rest { status: stream.status, message: words_in(&body) });
                }
                Err(error) => trouble = format!("{address}: {error}"),
            }
        }
        Err(Error::RestUnavailable(trouble))
    }

    /// The same, for an answer of JSON.
    pub async fn ask_json(&self, call: RestCall) -> Result<Value, Error> {
        let answer = self.ask(call).await?;
        serde_json::from_slice(&answer.body)
            .map_err(|error| Error::RestUnavailable(format!("the answer is no JSON: {error}")))
    }

    /// Options of each endpoint by itself, with its name.
    pub fn each(&self) -> Vec<(String, RestOptions)> {
        let alone = |endpoint: String| RestOptions { http_endpoints: vec![endpoint], ..self.clone() };
        self.endpoints().into_iter().map(|endpoint| (endpoint.clone(), alone(endpoint))).collect()
    }

    /// Secrets of these options, which must not appear in files made for other people.
    pub fn secrets(&self) -> Vec<String> {
        const VARIABLES: [&str; 5] = [
            "ALTHING_PASSWORD",
            "ETCDCTL_PASSWORD",
            "ALTHING_TOKEN",
            "ALTHING_CLUSTER_SECRET",
            "ALTHING_JOIN_TOKEN",
        ];
        let set = VARIABLES.iter().filter_map(|name| std::env::var(name).ok());
        let of_user = self.user.iter().filter_map(|user| Some(user.split_once(':')?.1.to_owned()));
        set.chain(of_user).chain(self.password.clone()).chain(self.token.clone()).collect()
    }

    fn request_of(&self, call: RestCall, with_id: bool) -> Result<Request, Error> {
        let RestCall { method, path, query, mut headers, body, .. } = call;
        let ns = self.ns.as_ref().map(|ns| ("ns", ns.clone()));
        let pairs =
            query.into_iter().chain(ns).map(|(name, value)| format!("{name}={}", percent_encode(&value)));
        let query = pairs.collect::<Vec<_>>().join("&");
        let target = if query.is_empty() { path } else { format!("{path}?{query}") };
        if with_id && !headers.iter().any(|(name, _)| *name == "x-request-id") {
            headers.push(("x-request-id", request_id::fresh()));
        }
        headers.extend(self.authorization()?.map(|value| ("authorization", value)));
        let unfit = |value: &str| !value.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if let Some((name, value)) = headers.iter().find(|(_, value)| unfit(value)) {
            return Err(Error::Usage(format!("{name} cannot be {value:?}: it must be plain text")));
        }
        Ok(Request { method, target, headers, body })
    }

    /// A token is sent as it is; data-only nodes accept no passwords.
    fn authorization(&self) -> Result<Option<String>, Error> {
        let set = || std::env::var("ALTHING_TOKEN").ok().filter(|token| !token.is_empty());
        let token = if self.user.is_some() { None } else { self.token.clone().or_else(set) };
        if let Some(token) = token {
            return Ok(Some(format!("Bearer {token}")));
        }
        let basic = |login: Login| STANDARD.encode(format!("{}:{}", login.user, login.password));
        Ok(login_of(&self.user, &self.password)?.map(|login| format!("Basic {}", basic(login))))
    }

    fn endpoints(&self) -> Vec<String> {
        let mut endpoints = self.http_endpoints.clone();
        if endpoints.is_empty() {
            let listed = std::env::var("ALTHING_HTTP_ENDPOINTS").unwrap_or_default();
            endpoints = listed.split(',').map(|endpoint| endpoint.trim().to_owned()).collect();
            endpoints.retain(|endpoint| !endpoint.is_empty());
        }
        if endpoints.is_empty() {
            endpoints.push(ENDPOINT_DEFAULT.to_owned());
        }
        endpoints
    }
}

/// The host and port, and whether TLS is used; an endpoint without a scheme uses TLS if that is configured.
fn address_of(endpoint: &str, can_seal: bool) -> (&str, bool) {
    let (scheme, address) = endpoint.split_once("://").unwrap_or(("", endpoint));
    (address.trim_end_matches('/'), scheme == "https" || scheme.is_empty() && can_seal)
}

/// What a refusal says.
fn words_of(answer: &RestAnswer) -> String {
    words_in(&answer.body)
}

fn words_in(bytes: &[u8]) -> String {
    let body: Value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
    match (body["error"].as_str(), body["message"].as_str()) {
        (Some(error), Some(message)) => format!("{error}: {message}"),
        _ => String::from_utf8_lossy(bytes).trim().to_owned(),
    }
}
