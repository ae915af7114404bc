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
pub type AuthedChannel = InterceptedService<Channel, TokenInterceptor>;

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
pub struct TokenInterceptor(Option<MetadataValue<Ascii>>);

impl Interceptor for TokenInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("token", token.clone());
        }
        Ok(request)
    }
}

/// The token of a client, once it was fetched.
#[derive(Debug, Default)]
pub(crate) struct TokenCache {
    interceptor: Mutex<Option<TokenInterceptor>>,
}

impl TokenCache {
    fn get(&self) -> Option<TokenInterceptor> {
        self.interceptor.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, interceptor: Option<TokenInterceptor>) {
        *self.interceptor.lock().unwrap_or_else(PoisonError::into_inner) = interceptor;
    }
}

impl Client {
    /// The connection with the token of this client's user.
    pub(crate) async fn authed(&self, channel: Channel, deadline: Instant) -> Result<AuthedChannel, Error> {
        let Some(login) = self.config().login.clone() else {
            return Ok(InterceptedService::new(channel, TokenInterceptor::default()));
        };
        if let Some(interceptor) = self.token_cache().get() {
            return Ok(InterceptedService::new(channel, interceptor));
        }
        let request = AuthenticateRequest { name: login.user, password: login.password };
        let mut service = AuthClient::new(channel.clone());
        let answer =
            timeout_at(deadline, service.authenticate(request)).await.map_err(|_| Error::TimedOut)?;
        let interceptor = match answer.map_err(Error::from) {
            Ok(answer) => TokenInterceptor(answer.into_inner().token.parse().ok()),
            Err(error) if error.is_refusal(Code::AuthNotEnabled) => TokenInterceptor::default(),
            Err(error) => return Err(error),
        };
        self.token_cache().set(Some(interceptor.clone()));
        Ok(InterceptedService::new(channel, interceptor))
    }

    /// The token of this client's user, for callers that use another protocol.
    pub async fn log_in(&self) -> Result<String, Error> {
        // Any call fetches it.
        self.auth_status(AuthStatusRequest {}).await?;
        let interceptor = self.token_cache().get().and_then(|interceptor| interceptor.0);
        let token = interceptor.as_ref().and_then(|token| token.to_str().ok());
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
            self.token_cache().set(None);
        }
        worth_it
    }
}
