//! Authentication: a name and a password, and the token that a login returned.
//! A connection goes in and one comes out that sends the token with every call. A token is fetched when it is first
//! needed, and again when the server does not know it any more; where auth is off, calls go without one.

use crate::{Client, Error};
use base::Code;
use proto::etcdserverpb::auth_client::AuthClient;
use proto::etcdserverpb::{AuthStatusRequest, AuthenticateRequest};
use std::sync::{Mutex, PoisonError};
use tokio::time::{Instant, timeout_at};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// A connection that sends the token.
pub type Line = InterceptedService<Channel, Badge>;

#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({:?})", self.user)
    }
}

/// The token that is sent with every call.
#[derive(Clone, Debug, Default)]
pub struct Badge(Option<MetadataValue<Ascii>>);

impl Interceptor for Badge {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("token", token.clone());
        }
        Ok(request)
    }
}

/// The token of a client, once it was fetched.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    badge: Mutex<Option<Badge>>,
}

impl Desk {
    fn get(&self) -> Option<Badge> {
        self.badge.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, badge: Option<Badge>) {
        *self.badge.lock().unwrap_or_else(PoisonError::into_inner) = badge;
    }
}

impl Client {
    /// The connection with the token of this client's user.
    pub(crate) async fn line(&self, channel: Channel, deadline: Instant) -> Result<Line, Error> {
        let Some(login) = self.config().login.clone() else {
            return Ok(InterceptedService::new(channel, Badge::default()));
        };
        if let Some(badge) = self.desk().get() {
            return Ok(InterceptedService::new(channel, badge));
        }
        let request = AuthenticateRequest { name: login.user, password: login.password };
        let mut service = AuthClient::new(channel.clone());
        let answer =
            timeout_at(deadline, service.authenticate(request)).await.map_err(|_| Error::TimedOut)?;
        let badge = match answer.map_err(Error::from) {
            Ok(answer) => Badge(answer.into_inner().token.parse().ok()),
            Err(error) if error.is_refusal(Code::AuthNotEnabled) => Badge::default(),
            Err(error) => return Err(error),
        };
        self.desk().set(Some(badge.clone()));
        Ok(InterceptedService::new(channel, badge))
    }

    /// The token of this client's user, for callers that use another protocol.
    pub async fn log_in(&self) -> Result<String, Error> {
        // Any call fetches it.
        self.auth_status(AuthStatusRequest {}).await?;
        let badge = self.desk().get().and_then(|badge| badge.0);
        let token = badge.as_ref().and_then(|token| token.to_str().ok());
        token.map(str::to_owned).ok_or_else(|| match &self.config().login {
            Some(_) => Status::failed_precondition(Code::AuthNotEnabled.message()).into(),
            None => Status::invalid_argument(Code::UserEmpty.message()).into(),
        })
    }

    /// Whether a call that failed so must be retried with a new token. It was not executed.
    pub(crate) fn forgets_token(&self, error: &Error) -> bool {
        let stale = [Code::InvalidAuthToken, Code::UserEmpty, Code::AuthOldRevision];
        let worth_it = self.config().login.is_some() && stale.iter().any(|code| error.is_refusal(*code));
        if worth_it {
            self.desk().set(None);
        }
        worth_it
    }
}
