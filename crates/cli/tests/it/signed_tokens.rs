//! Tokens that are signed, as clients meet them: good on every member that has the key, and on an etcd that has it.

use crate::auth::{CHEAP, gate, open_with_auth, token_of, v3, with_auth};
use crate::process::{Member, Plan, althing, start_etcd, until};
use crate::rest::Rest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::io::Write;

const KEYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../jwt/keys");
const PUT: &str = r#"{"key":"YQ==","value":"YQ=="}"#;

fn signing(method: &str, key: &str, more: &str) -> String {
    format!("jwt,sign-method={method},priv-key={KEYS}/{key}.pem{more}")
}

fn message(answer: &crate::rest::Answer) -> String {
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_signed_token_is_good_on_every_member_until_something_about_auth_changes() {
    let reading = format!("jwt,sign-method=RS256,pub-key={KEYS}/rs256.pub.pem");
    let flags = [signing("RS256", "rs256", ""), signing("RS256", "rs256.pkcs1", ""), reading];
    let plans = Plan::cluster(3).into_iter().zip(&flags);
    let members: Vec<Member> =
        plans.map(|(plan, flag)| plan.with(&CHEAP).with(&["--auth-token", flag]).start()).collect();
    members.iter().for_each(Member::wait_ready);
    with_auth(&members[0]);
    let put = |member: &Member, token: &str| v3(gate(member), token, "kv/put", PUT);

    let token = token_of(gate(&members[0]), "u1", "pw");
    assert_eq!(token.split('.').count(), 3, "{token}");
    for member in &members {
        assert_eq!(put(member, &token).status, 200);
        assert_eq!(put(member, &format!("Bearer {token}")).status, 200);
    }
    // Who can read tokens only gives out none.
    let login = r#"{"name":"u1","password":"pw"}"#;
    let refused = v3(gate(&members[2]), "", "auth/authenticate", login);
    assert_eq!(
        (refused.status, message(&refused).as_str()),
        (500, "auth: token signing attempted with verify-only key")
    );
    // A token that was made without the key is invalid.
    let claims = token.split('.').nth(1).unwrap();
    let unsigned = format!("{}.{claims}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#));
    let root = URL_SAFE_NO_PAD.encode(r#"{"username":"root","revision":1000}"#);
    let changed = token.replace(claims, &root);
    for forged in [&unsigned, &changed, "abcdefghijklmnop.7", "nonsense"] {
        assert_eq!(put(&members[1], forged).status, 401, "{forged}");
    }
    // A change through any member ends it on all.
    let root = token_of(gate(&members[1]), "root", "rpw");
    assert_eq!(v3(gate(&members[1]), &root, "auth/role/add", r#"{"name":"more"}"#).status, 200);
    for member in &members {
        let refused = put(member, &token);
        assert_eq!(message(&refused), "etcdserver: revision of auth store is old");
    }
    let again = token_of(gate(&members[0]), "u1", "pw");
    for member in &members {
        assert_eq!(put(member, &again).status, 200);
        let beyond = v3(gate(member), &again, "kv/put", r#"{"key":"eg=="}"#);
        assert_eq!(beyond.status, 403, "{}", beyond.json());
    }
}

#[test]
fn a_signed_token_ends_by_the_clock() {
    let token = signing("EdDSA", "ed", ",ttl=1s");
    let member = Plan::single().with(&CHEAP).with(&["--auth-token", &token]).start_ready();
    with_auth(&member);
    let token = token_of(gate(&member), "u1", "pw");
    until("the token has ended", || (v3(gate(&member), &token, "kv/put", PUT).status == 401).then_some(()));
}

#[test]
fn keys_that_cannot_be_used_stop_the_start() {
    for (flag, words) in [
        (signing("RS256", "es256", ""), "there is no private key for RS256"),
        (signing("none", "rs256", ""), "it must be simple, or jwt with"),
        (signing("RS256", "missing", ""), "cannot read"),
    ] {
        for start in [&["serve"][..], &["etcd"]] {
            let output = althing().args(start).args(["--auth-token", &flag]).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(2) && told.contains(words), "{:?}: {told}", output.status);
        }
    }
}

#[test]
fn etcd_and_we_read_each_others_tokens() {
    let Ok(binary) = std::env::var("ETCD") else {
        let _ =
            writeln!(std::io::stderr(), "SKIPPED exchanging signed tokens with etcd: set ETCD to a binary");
        return;
    };
    for (method, key) in [("RS256", "rs256"), ("PS512", "rs256.pkcs1"), ("ES256", "es256"), ("HS256", "ed")] {
        // etcd wants both halves of a pair named.
        let public = match method {
            "HS256" => String::new(),
            _ => format!(",pub-key={KEYS}/{}.pub.pem", key.trim_end_matches(".pkcs1")),
        };
        let flag = signing(method, key, &public);
        let flags = ["--auth-token", &flag, "--bcrypt-cost", "4"];
        let etcd = start_etcd(&binary, &flags[..2]);
        let (theirs, member) = (Rest(etcd.address()), Plan::single().with(&flags).start_ready());
        let ours = gate(&member);
        open_with_auth(theirs);
        open_with_auth(ours);
        let (their_token, our_token) = (token_of(theirs, "u1", "pw"), token_of(ours, "u1", "pw"));
        for (server, token) in
            [(theirs, &their_token), (theirs, &our_token), (ours, &their_token), (ours, &our_token)]
        {
            let answer = v3(server, token, "kv/put", PUT);
            assert_eq!(answer.status, 200, "{method}: {token}: {}", answer.json());
        }
    }
}
