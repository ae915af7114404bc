//! The auth tokens of clients: the user of each, and when it expires. Tokens come from the log, so every member knows
//! all of them; a token goes in with a request and a user comes out. An unused token expires; the token of a user
//! that was deleted, or has another password, is revoked at once.

use crate::mutant::Mutant;
use base::Instant;
use base::limits::TOKENS_MAX;
use base::mutant::planted;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub struct AuthTokens {
    /// How long one lives after its last use.
    ttl: Duration,
    by_token: BTreeMap<Arc<str>, TokenEntry>,
    /// Tokens by the moment at which they end.
    ends: BTreeSet<(Instant, Arc<str>)>,
}

#[derive(Debug)]
struct TokenEntry {
    user: Arc<str>,
    ends: Instant,
}

/// A change of tokens from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenEvent {
    Given {
        token: Arc<str>,
        user: Arc<str>,
    },
    /// The user was deleted, or has another password.
    Revoked {
        user: Arc<str>,
    },
    /// Auth was turned off, or a snapshot skipped changes of users.
    AllRevoked,
}

impl AuthTokens {
    pub fn new(ttl: Duration) -> AuthTokens {
        AuthTokens { ttl, by_token: BTreeMap::new(), ends: BTreeSet::new() }
    }

    pub fn observe(&mut self, now: Instant, news: TokenEvent) {
        match news {
            TokenEvent::Given { token, user } => self.add(now, token, user),
            TokenEvent::Revoked { user } if !planted(Mutant::TokenOutlivesUser) => self.revoke(&user),
            TokenEvent::Revoked { .. } => {}
            TokenEvent::AllRevoked => *self = AuthTokens::new(self.ttl),
        }
    }

    /// The user of a token. Its time to live starts again.
    pub fn user_of(&mut self, now: Instant, token: &str) -> Option<Arc<str>> {
        self.expire(now);
        let (token, entry) = self.by_token.get_key_value(token)?;
        let (token, user) = (token.clone(), entry.user.clone());
        self.add(now, token, user.clone());
        Some(user)
    }

    pub fn count(&self) -> usize {
        self.by_token.len()
    }

    fn add(&mut self, now: Instant, token: Arc<str>, user: Arc<str>) {
        self.remove(&token);
        if self.by_token.len() >= TOKENS_MAX
            && let Some((_, first)) = self.ends.first().cloned()
        {
            self.remove(&first);
        }
        let ends = now.after(self.ttl);
        self.ends.insert((ends, token.clone()));
        self.by_token.insert(token, TokenEntry { user, ends });
    }

    fn remove(&mut self, token: &Arc<str>) {
        if let Some(entry) = self.by_token.remove(token) {
            self.ends.remove(&(entry.ends, token.clone()));
        }
    }

    fn revoke(&mut self, user: &str) {
        let of_user =
            |(token, entry): (&Arc<str>, &TokenEntry)| (*entry.user == *user).then(|| token.clone());
        let gone: Vec<Arc<str>> = self.by_token.iter().filter_map(of_user).collect();
        gone.iter().for_each(|token| self.remove(token));
    }

    fn expire(&mut self, now: Instant) {
        while let Some((_, token)) = self.ends.first().cloned().filter(|(ends, _)| *ends <= now) {
            self.remove(&token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(300);

    fn at(seconds: u64) -> Instant {
        Instant(0).after(Duration::from_secs(seconds))
    }

    fn tokens(list: &[(&str, &str)]) -> AuthTokens {
        let mut tokens = AuthTokens::new(TTL);
        for (token, user) in list {
            tokens.observe(at(0), TokenEvent::Given { token: (*token).into(), user: (*user).into() });
        }
        tokens
    }

    #[test]
    fn a_token_lives_as_long_as_it_is_used() {
        let mut tokens = tokens(&[("t", "ann")]);
        for time in [200, 400, 699] {
            assert_eq!(tokens.user_of(at(time), "t").as_deref(), Some("ann"), "{time}");
        }
        assert_eq!(tokens.user_of(at(999), "t"), None, "300 seconds without use");
        assert_eq!(tokens.count(), 0);
    }

    #[test]
    fn tokens_go_with_their_user() {
        let mut tokens = tokens(&[("1", "ann"), ("2", "ben"), ("3", "ann")]);
        tokens.observe(at(1), TokenEvent::Revoked { user: "ann".into() });
        assert_eq!(tokens.user_of(at(1), "1"), None);
        assert_eq!(tokens.user_of(at(1), "3"), None);
        assert_eq!(tokens.user_of(at(1), "2").as_deref(), Some("ben"));
        tokens.observe(at(1), TokenEvent::AllRevoked);
        assert_eq!(tokens.user_of(at(1), "2"), None);
    }

    #[test]
    fn there_are_only_so_many() {
        let mut tokens = tokens(&[("first", "ann")]);
        for nth in 0..TOKENS_MAX {
            tokens.observe(at(1), TokenEvent::Given { token: nth.to_string().into(), user: "ben".into() });
        }
        assert_eq!(tokens.count(), TOKENS_MAX);
        assert_eq!(tokens.user_of(at(2), "first"), None);
    }
}
