use super::*;
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use tls::{MemberProof, PeerClaim, PeerFiles, PinnedAuthority};

const PATIENCE: Duration = Duration::from_secs(60);

fn certified(name: &str, ca: &str) -> PeerTls {
    let pem = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/pem").join(name);
    let (cert, key) = (pem(&format!("{name}.pem")), pem(&format!("{name}.key")));
    PeerTls::open(PeerFiles {
        cert,
        key,
        ca: pem(ca),
        crl: None,
        allowed_names: vec![],
        allowed_hosts: vec![],
    })
    .unwrap()
}

fn accept(listen: &TcpListener, tls: Option<&PeerTls>, timeout: Duration) -> io::Result<PeerConn> {
    PeerConn::accept(Arc::new(listen.accept()?.0), tls, timeout)
}

/// Whether a byte gets from the acceptor to the dialler, as each side sees it.
fn connect(dialler: &PeerTls, acceptor: &PeerTls) -> (bool, bool) {
    let listen = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listen.local_addr().unwrap();
    thread::scope(|scope| {
        let accepted = scope.spawn(|| {
            let wire = accept(&listen, Some(acceptor), PATIENCE);
            wire.and_then(|wire| wire.write_all(&[0])).is_ok()
        });
        let stream = TcpStream::connect(address).unwrap();
        let dialled = PeerConn::dial(stream, dialler.dial(PeerClaim::Peer, &address.to_string()), PATIENCE);
        // A refused side learns it with the first bytes.
        let heard = dialled.and_then(|wire| wire.read_exact_by(&mut [0], Instant::now() + PATIENCE)).is_ok();
        (heard, accepted.join().unwrap())
    })
}

fn pair() -> (PeerConn, PeerConn) {
    let listen = TcpListener::bind("127.0.0.1:0").unwrap();
    let (one, other) = (certified("peer", "ca.pem"), certified("peer", "ca.pem"));
    let address = listen.local_addr().unwrap();
    thread::scope(|scope| {
        let accepted = scope.spawn(|| accept(&listen, Some(&other), PATIENCE));
        let stream = TcpStream::connect(address).unwrap();
        let dialled = PeerConn::dial(stream, one.dial(PeerClaim::Peer, &address.to_string()), PATIENCE);
        (dialled.unwrap(), accepted.join().unwrap().unwrap())
    })
}

#[test]
fn what_is_written_on_one_side_is_read_on_the_other_in_both_directions_at_once() {
    let (one, other) = pair();
    let bytes = |seed: u8| (0..3_000_000u32).map(|nth| (nth % 251) as u8 ^ seed).collect::<Vec<u8>>();
    thread::scope(|scope| {
        for (from, to, seed) in [(&one, &other, 1), (&other, &one, 2)] {
            scope.spawn(move || {
                for part in bytes(seed).chunks(77_777) {
                    from.write_all(part).unwrap();
                }
            });
            scope.spawn(move || {
                let mut heard = vec![0; 3_000_000];
                for part in heard.chunks_mut(12_345) {
                    to.read_exact_by(part, Instant::now() + PATIENCE).unwrap();
                }
                assert!(heard == bytes(seed), "bytes arrive as they were sent");
            });
        }
    });
    drop(one);
    let ended = other.read_exact_by(&mut [0], Instant::now() + PATIENCE).unwrap_err();
    assert!(matches!(ended.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset), "{ended}");
}

#[test]
fn a_node_without_a_trusted_certificate_is_refused_on_either_side() {
    let peer = certified("peer", "ca.pem");
    for (name, ca) in [
        // A client's certificate, of the same authority.
        ("alice", "ca.pem"),
        ("expired", "ca.pem"),
        ("stranger", "ca.pem"),
    ] {
        assert_eq!(connect(&certified(name, ca), &peer), (false, false), "{name} dials");
        assert_eq!(connect(&peer, &certified(name, ca)), (false, false), "{name} is dialled");
    }
    assert_eq!(connect(&peer, &certified("peer", "other-ca.pem")), (false, false), "another authority");
    assert_eq!(connect(&peer, &peer), (true, true));
}

#[test]
fn a_certificate_speaks_for_the_addresses_that_it_names() {
    let outcome = connect(&certified("peer", "ca.pem"), &certified("elsewhere", "ca.pem"));
    assert_eq!(outcome, (false, false), "the certificate names another address");
    let (_one, other) = pair();
    let peers = certified("peer", "ca.pem");
    let speaks_for = |address| {
        other.certificates(|certificates| peers.proves(certificates, PeerClaim::Member { id: 1, address }))
    };
    assert!(speaks_for("127.0.0.1:2380") && speaks_for("localhost:1") && speaks_for("[::1]:1"));
    for address in ["192.0.2.1:2380", "example.com:2380", "", ":", "a b:1"] {
        assert!(!speaks_for(address), "{address}");
    }
}

#[test]
fn plain_text_and_half_a_handshake_end_by_the_deadline() {
    let acceptor = certified("peer", "ca.pem");
    let listen = TcpListener::bind("127.0.0.1:0").unwrap();
    for (words, timeout) in
        [(&b"ALTHINGP and more of it"[..], PATIENCE), (&[22, 3, 1], Duration::from_millis(50))]
    {
        let mut stream = TcpStream::connect(listen.local_addr().unwrap()).unwrap();
        stream.write_all(words).unwrap();
        assert!(accept(&listen, Some(&acceptor), timeout).is_err());
    }
}

fn with_secret(letter: &str, id: u64) -> PeerTls {
    let secret = tls::Secret::parse(&letter.repeat(32)).unwrap();
    PeerTls::new(MemberProof::Secret(secret), Some(id), &[]).unwrap()
}

fn open_with_region(region: &str, letter: &str) -> PeerTls {
    let secret = tls::Secret::parse(&letter.repeat(32)).unwrap();
    PeerTls::new(MemberProof::Open, Some(1), &[(region.to_owned(), secret)]).unwrap()
}

/// What the dialler and the acceptor have of each other after the handshakes, if both succeed.
fn meet(dial: Option<DialTls>, acceptor: &PeerTls) -> Option<(PeerConn, PeerConn)> {
    let listen = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listen.local_addr().unwrap();
    thread::scope(|scope| {
        let accepted = scope.spawn(|| {
            let wire = accept(&listen, Some(acceptor), PATIENCE).ok()?;
            wire.write_all(&[0]).ok()?;
            Some(wire)
        });
        let dialled = PeerConn::dial(TcpStream::connect(address).unwrap(), dial, PATIENCE);
        if let Ok(wire) = &dialled
            && wire.seal().is_none()
        {
            wire.write_all(b"A").unwrap();
        }
        let dialled = dialled.and_then(|wire| {
            wire.read_exact_by(&mut [0], Instant::now() + PATIENCE)?;
            Ok(wire)
        });
        Some((dialled.ok()?, accepted.join().unwrap()?))
    })
}

#[test]
fn a_secret_proves_members_under_their_own_ids() {
    let (one, two, other) = (with_secret("a", 1), with_secret("a", 2), with_secret("b", 2));
    let member = |id| PeerClaim::Member { id, address: "nowhere:1" };
    let (_dialled, accepted) = meet(one.dial(member(2), ""), &two).expect("they have the same secret");
    let proves = |claim| accepted.certificates(|certificates| two.proves(certificates, claim));
    assert!(proves(PeerClaim::Peer) && proves(member(1)) && !proves(member(2)));
    assert!(meet(one.dial(member(3), ""), &two).is_none(), "another member answers there");
    assert!(meet(one.dial(member(2), ""), &other).is_none(), "it has another secret");
    assert!(meet(other.dial(member(2), ""), &two).is_none(), "it has another secret");
}

#[test]
fn a_node_without_a_certificate_proves_nothing_and_a_token_knows_its_cluster() {
    let secret = tls::Secret::parse(&"a".repeat(32)).unwrap();
    let (two, other) = (with_secret("a", 2), with_secret("b", 2));
    let pinned = || Some(PinnedAuthority::dial(PeerTls::authority_of(&secret)));
    let (_dialled, accepted) = meet(pinned(), &two).expect("the token names the authority");
    assert!(!accepted.certificates(|certificates| two.proves(certificates, PeerClaim::Peer)));
    assert!(meet(pinned(), &other).is_none(), "another cluster answers");
    let (_dialled, clear) = meet(None, &two).expect("a question may come in the clear");
    assert!(
        clear.seal().is_none()
            && !clear.certificates(|certificates| two.proves(certificates, PeerClaim::Peer))
    );
}

#[test]
fn the_secret_of_two_regions_proves_a_region_and_no_member() {
    let region = |name| PeerClaim::Region { name, address: None };
    let (eu, us) = (open_with_region("us", "a"), open_with_region("eu", "a"));
    let (_dialled, accepted) = meet(eu.dial(region("us"), ""), &us).expect("they share a secret");
    let proves = |claim| accepted.certificates(|certificates| us.proves(certificates, claim));
    assert!(us.demands(region("eu")) && proves(region("eu")));
    assert!(!proves(region("ap")) && !proves(PeerClaim::Peer) && !us.demands(region("ap")));
    let stranger = open_with_region("us", "b");
    assert!(meet(stranger.dial(region("us"), ""), &us).is_none(), "it has another secret");
    assert!(eu.dial(region("ap"), "").is_none() && eu.dial(PeerClaim::Peer, "").is_none(), "in the clear");

    let members = tls::Secret::parse(&"c".repeat(32)).unwrap();
    let pair = tls::Secret::parse(&"a".repeat(32)).unwrap();
    let closed = PeerTls::new(MemberProof::Secret(members), Some(1), &[("eu".to_owned(), pair)]).unwrap();
    let (_dialled, accepted) = meet(eu.dial(region("us"), ""), &closed).expect("they share a secret");
    let proves = |claim| accepted.certificates(|certificates| closed.proves(certificates, claim));
    assert!(proves(region("eu")) && !proves(PeerClaim::Peer), "a region is no member");
}
