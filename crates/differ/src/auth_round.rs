//! A round with users: two fresh servers on which auth is turned on, and off, and on again, while users with few
//! permissions, with old tokens and with none read keys and change users and roles. Every answer is compared.
//! There are no watches in it: ours end with their permission, and etcd's do not (deviation 38).

use crate::Difference;
use crate::auth::{AuthCall, ROOT, USERS, add_user, grant_role};
use crate::compare::ComparableAnswer;
use crate::generator::{EtcdRelease, RequestGenerator};
use crate::round::Outcome;
use crate::side::Side;
use crate::test_call::TestCall;
use bytes::Bytes;
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::{
    AuthenticateRequest, LeaseGrantRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use tonic::metadata::{Ascii, MetadataValue};

type Token = MetadataValue<Ascii>;

/// Leases live longer than any run.
const LONG_TTL: i64 = 100_000;

/// The caller of a request.
#[derive(Clone, Debug)]
enum TestCaller {
    Anonymous,
    /// With the last token that this user got, however old.
    User(String),
    /// With a token that no server has issued.
    UnknownToken,
}

struct AuthRound {
    theirs: Side,
    ours: Side,
    generator: RequestGenerator,
    seed: u64,
    step: u64,
    /// The last token of each user, on either side.
    tokens: BTreeMap<String, (Token, Token)>,
    enabled: bool,
}

pub async fn run(
    theirs: Side,
    ours: Side,
    generator: RequestGenerator,
    ops: u64,
    done: &AtomicU64,
) -> Outcome<()> {
    let seed = generator.seed;
    let mut round =
        AuthRound { theirs, ours, generator, seed, step: 0, tokens: BTreeMap::new(), enabled: false };
    for ask in [add_user(ROOT.to_owned(), ROOT, false), grant_role(ROOT, ROOT), AuthCall::Enable] {
        round.ask(&TestCaller::Anonymous, TestCall::Auth(ask)).await?;
    }
    round.login(AuthenticateRequest { name: ROOT.to_owned(), password: ROOT.to_owned() }).await?;
    for _ in 0..ops {
        round.step += 1;
        round.perform().await?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

impl AuthRound {
    async fn perform(&mut self) -> Outcome<()> {
        match self.generator.below(100) {
            0..=9 => {
                let login = self.generator.login();
                self.login(login).await
            }
            10..=34 => {
                // Most requests of others than root are refused here.
                let who = if self.generator.one_in(5) {
                    self.any_caller()
                } else {
                    TestCaller::User(ROOT.to_owned())
                };
                let ask = self.generator.auth();
                self.ask(&who, TestCall::Auth(ask)).await
            }
            // Only root may ask both (deviation 38).
            35 => self.ask(&TestCaller::User(ROOT.to_owned()), TestCall::Auth(AuthCall::Status)).await,
            36..=38 => {
                let grant = LeaseGrantRequest { ttl: LONG_TTL, id: self.generator.lease_id() };
                self.ask(&TestCaller::User(ROOT.to_owned()), TestCall::Grant(grant)).await
            }
            _ => {
                let who = self.any_caller();
                // An anonymous caller may revoke leases in etcd (deviation 38).
                let ask = match self.about_keys() {
                    TestCall::Revoke(_) if self.tokens_of(&who).0.is_none() => TestCall::Range(self.range()),
                    // And do nothing at all.
                    TestCall::Txn(txn) if txn == TxnRequest::default() => TestCall::Range(self.range()),
                    ask => ask,
                };
                self.ask(&who, ask).await
            }
        }
    }

    fn any_caller(&mut self) -> TestCaller {
        match self.generator.below(20) {
            0 => TestCaller::Anonymous,
            1 => TestCaller::UnknownToken,
            n => TestCaller::User(USERS[n as usize % USERS.len()].to_owned()),
        }
    }

    fn about_keys(&mut self) -> TestCall {
        match self.generator.below(20) {
            0..=7 => TestCall::Range(self.range()),
            8..=13 => TestCall::Put(self.generator.put()),
            14..=15 => {
                let mut delete = self.generator.delete();
                straighten(&delete.key, &mut delete.range_end);
                TestCall::Delete(delete)
            }
            16 => TestCall::Revoke(self.generator.lease_id()),
            _ => {
                let txn = self.generator.txn(0);
                TestCall::Txn(plain(txn, self.generator.release))
            }
        }
    }

    fn range(&mut self) -> RangeRequest {
        let mut range = self.generator.range();
        straighten(&range.key, &mut range.range_end);
        range
    }

    /// The token is sent with the next requests of this user.
    async fn login(&mut self, login: AuthenticateRequest) -> Outcome<()> {
        let (theirs, ours) = tokio::join!(self.theirs.login(login.clone()), self.ours.login(login.clone()));
        let text = |outcome: &Result<Token, ComparableAnswer>| match outcome {
            Ok(_) => "a token".to_owned(),
            Err(refused) => refused.text.clone(),
        };
        let (expected, found) = (text(&theirs), text(&ours));
        if expected != found {
            return Err(self.difference(&TestCaller::Anonymous, &login, expected, found));
        }
        if let (Ok(theirs), Ok(ours)) = (theirs, ours) {
            self.tokens.insert(login.name, (theirs, ours));
        }
        Ok(())
    }

    async fn ask(&mut self, who: &TestCaller, ask: TestCall) -> Outcome<()> {
        (self.theirs.token, self.ours.token) = self.tokens_of(who);
        let (expected, found) = tokio::join!(self.theirs.answer(ask.clone()), self.ours.answer(ask.clone()));
        if expected != found {
            return Err(self.difference(who, &ask, expected.text, found.text));
        }
        match ask {
            TestCall::Auth(AuthCall::Enable) if found.revision.is_some() => self.enabled = true,
            TestCall::Auth(AuthCall::Disable) if found.revision.is_some() => self.enabled = false,
            _ => {}
        }
        self.generator.now = self.generator.now.max(found.revision.unwrap_or(0));
        Ok(())
    }

    /// While auth is off no token is sent: etcd 3.5.1 would refuse what it does not know (deviation 38).
    fn tokens_of(&self, who: &TestCaller) -> (Option<Token>, Option<Token>) {
        match who {
            _ if !self.enabled => (None, None),
            TestCaller::Anonymous => (None, None),
            TestCaller::UnknownToken => {
                let token = Token::from_static("abcdefghijklmnop.1");
                (Some(token.clone()), Some(token))
            }
            TestCaller::User(name) => self.tokens.get(name).cloned().unzip(),
        }
    }

    fn difference(
        &self,
        who: &TestCaller,
        request: &dyn std::fmt::Debug,
        theirs: String,
        ours: String,
    ) -> Box<Difference> {
        let request = format!("{who:?}: {request:#?}");
        Box::new(Difference { seed: self.seed, step: self.step, request, theirs, ours })
    }
}

/// Within a transaction we also check the leases and the previous values of puts, as etcd 3.7 does (deviation 38).
fn plain(mut txn: TxnRequest, release: EtcdRelease) -> TxnRequest {
    let normalize = |op: &mut RequestOp| match &mut op.request {
        Some(Op::RequestPut(_)) if release == EtcdRelease::Latest => {}
        Some(Op::RequestPut(put)) => *put = PutRequest { lease: 0, prev_kv: false, ..std::mem::take(put) },
        Some(Op::RequestRange(range)) => straighten(&range.key, &mut range.range_end),
        Some(Op::RequestDeleteRange(delete)) => straighten(&delete.key, &mut delete.range_end),
        _ => {}
    };
    txn.compare.iter_mut().for_each(|compare| straighten(&compare.key, &mut compare.range_end));
    txn.success.iter_mut().chain(&mut txn.failure).for_each(normalize);
    txn
}

/// Whether a range that holds no key is permitted depends on the permissions there are in etcd; here it is (deviation 38).
fn straighten(key: &Bytes, range_end: &mut Bytes) {
    if *range_end <= *key && *range_end != "\0" {
        *range_end = Bytes::new();
    }
}
