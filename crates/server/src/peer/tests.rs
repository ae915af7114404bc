//! The transport over real loopback sockets: members that talk, and raw sockets that play bad or dying peers.

use super::handshake::{Hello, Verdict};
use super::pending::HALF_OPEN_MAX;
use super::*;
use base::limits::SNAPSHOT_CHUNK_BYTES;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Condvar;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};

/// Far longer than anything here takes; only a failure waits so long.
const PATIENCE: Duration = Duration::from_secs(30);
const CLUSTER: ClusterId = ClusterId(77);
const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);
const THREE: NodeId = NodeId(3);

struct Member {
    peers: Peers,
    events: Receiver<PeerEvent>,
    address: SocketAddr,
}

/// Member one, whose only peer two is played by the test.
struct Alone {
    member: Member,
    /// The address of two: bound, so that no other test gets its port, but no thread accepts there.
    _silent_listener: TcpListener,
}

impl std::ops::Deref for Alone {
    type Target = Member;

    fn deref(&self) -> &Member {
        &self.member
    }
}

fn bind() -> TcpListener {
    crate::ports::listen().unwrap()
}

fn start_with(me: NodeId, listen: TcpListener, peers: &[(NodeId, SocketAddr)], timing: Timing) -> Member {
    start_trusting(true, me, listen, peers, timing)
}

fn start_trusting(
    trusts_this_machine: bool,
    me: NodeId,
    listen: TcpListener,
    peers: &[(NodeId, SocketAddr)],
    timing: Timing,
) -> Member {
    let (sender, events) = mpsc::channel();
    let address = listen.local_addr().unwrap();
    let peers = peers.iter().map(|(id, address)| (*id, address.to_string())).collect();
    // The receiver may be gone while a test ends.
    let deliver = Arc::new(move |event| {
        let _ = sender.send(event);
        Ok(())
    });
    let peers = Peers::start(
        PeerParams {
            cluster: CLUSTER,
            me,
            listen: Some(listen),
            peers,
            timing,
            security: Arc::new(SharedPeerAuth::new(PeerAuth::open())),
            trusts_this_machine,
            audit: None,
            on_round_trip: unheard(),
            on_question: unasked(),
        },
        deliver,
    )
    .unwrap();
    Member { peers, events, address }
}

fn unasked() -> OnQuestion {
    Arc::new(|question, _| question)
}

fn unheard() -> OnRoundTrip {
    Arc::new(|_, _| {})
}

fn start(me: NodeId, listen: TcpListener, peers: &[(NodeId, SocketAddr)]) -> Member {
    start_with(me, listen, peers, Timing::default())
}

/// Two members that are connected both ways.
fn pair() -> (Member, Member) {
    let (a, b) = (bind(), bind());
    let (at_a, at_b) = (a.local_addr().unwrap(), b.local_addr().unwrap());
    let (a, b) = (start(ONE, a, &[(TWO, at_b)]), start(TWO, b, &[(ONE, at_a)]));
    a.wait_for(PeerEvent::Connected { peer: TWO });
    b.wait_for(PeerEvent::Connected { peer: ONE });
    (a, b)
}

fn alone_with(timing: Timing) -> Alone {
    let silent = bind();
    let member = start_with(ONE, bind(), &[(TWO, silent.local_addr().unwrap())], timing);
    Alone { member, _silent_listener: silent }
}

/// Binds the port of a member that was stopped; a passing connection may hold it for a moment.
fn rebind(address: SocketAddr) -> TcpListener {
    eventually(|| TcpListener::bind(address).ok())
}

/// Asks until there is an answer.
fn eventually<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "no answer in time");
        thread::yield_now();
    }
}

impl Member {
    fn next(&self) -> PeerEvent {
        self.events.recv_timeout(PATIENCE).expect("an event comes")
    }

    fn wait_for(&self, wanted: PeerEvent) {
        while self.next() != wanted {}
    }

    /// The next `count` frames from a peer; nothing may be lost meanwhile.
    fn frames(&self, wanted: NodeId, count: usize) -> Vec<Bytes> {
        let mut all = Vec::new();
        while all.len() < count {
            match self.next() {
                PeerEvent::Frames { from, frames } if from == wanted => all.extend(frames),
                PeerEvent::Lost { peer } => panic!("lost {peer}"),
                _ => {}
            }
        }
        all
    }

    /// Plays a peer: dials this member and says hello.
    fn dial_as(&self, hello: Hello) -> (TcpStream, u8) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&hello.encode()).unwrap();
        let mut answer = [0; 3];
        stream.read_exact(&mut answer).unwrap();
        (stream, answer[0])
    }

    fn dial_as_two(&self) -> TcpStream {
        let (stream, verdict) = self.dial_as(Hello { cluster: CLUSTER, from: TWO, to: ONE });
        assert_eq!(verdict, Verdict::Welcome as u8);
        stream
    }
}

/// Plays a peer that is dialled.
fn welcome(listen: &TcpListener) -> TcpStream {
    let (mut stream, _) = listen.accept().unwrap();
    let mut hello = [0; handshake::HELLO_BYTES];
    stream.read_exact(&mut hello).unwrap();
    stream.write_all(&[Verdict::Welcome as u8, 1, 0]).unwrap();
    stream
}

/// Waits until the other side closes. Anything that it still sends is ignored.
fn wait_closed(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("still open"),
            Err(_) => return,
        }
    }
}

fn envelope_of(frames: &[&'static str]) -> Vec<u8> {
    let frames: Vec<Bytes> = frames.iter().map(|frame| Bytes::from_static(frame.as_bytes())).collect();
    let mut out = Vec::new();
    envelope::encode(&frames, &mut out);
    out
}

fn numbered(from: NodeId, count: u32) -> Vec<Bytes> {
    (0..count).map(|number| Bytes::from(format!("{from}:{number}"))).collect()
}

#[test]
fn frames_arrive_in_order_and_complete_between_three_members() {
    let listeners = [bind(), bind(), bind()];
    let ids = [ONE, TWO, THREE];
    let places: Vec<_> =
        ids.iter().zip(&listeners).map(|(id, listen)| (*id, listen.local_addr().unwrap())).collect();
    let members: Vec<Member> = ids
        .into_iter()
        .zip(listeners)
        .map(|(me, listen)| {
            let others: Vec<_> = places.iter().copied().filter(|(id, _)| *id != me).collect();
            start(me, listen, &others)
        })
        .collect();
    let mut received: BTreeMap<(NodeId, NodeId), Vec<Bytes>> = BTreeMap::new();
    for (member, me) in members.iter().zip(ids) {
        let mut connected = 0;
        while connected < 2 {
            match member.next() {
                PeerEvent::Connected { .. } => connected += 1,
                event => panic!("{event:?} before anything was sent"),
            }
        }
        received.insert((me, me), Vec::new());
    }
    for (member, me) in members.iter().zip(ids) {
        for to in ids.into_iter().filter(|to| *to != me) {
            for (nth, batch) in numbered(me, 2_000).chunks(7).enumerate() {
                assert!(match nth % 3 {
                    0 => member.peers.send(to, batch.to_vec()),
                    _ => member.peers.send_at_once(to, batch.to_vec()),
                });
            }
        }
    }
    for (member, me) in members.iter().zip(ids) {
        let mut left = 2 * 2_000;
        while left > 0 {
            let PeerEvent::Frames { from, frames } = member.next() else { panic!("only frames come") };
            left -= frames.len();
            received.entry((me, from)).or_default().extend(frames);
        }
        for from in ids.into_iter().filter(|from| *from != me) {
            assert_eq!(received[&(me, from)], numbered(from, 2_000));
        }
    }
    // A frame is counted after it was written, so it may arrive earlier.
    let counters = eventually(|| {
        let counters = members[0].peers.counters();
        counters.iter().all(|(_, counters)| counters.frames_sent == 2_000).then_some(counters)
    });
    assert_eq!(counters.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [TWO, THREE]);
    for (_, counters) in counters {
        assert_eq!(counters.frames_received, 2_000);
        assert_eq!((counters.frames_refused, counters.frames_dropped, counters.connects), (0, 0, 1));
    }
}

#[test]
fn what_is_sent_at_once_never_waits_for_a_peer_that_does_not_read_and_arrives_in_order() {
    let two = bind();
    let member = start(ONE, bind(), &[(TWO, two.local_addr().unwrap())]);
    let mut stream = welcome(&two);
    member.wait_for(PeerEvent::Connected { peer: TWO });
    let piece = |nth: u32| {
        let mut bytes = vec![7; 8 * 1024];
        bytes[..4].copy_from_slice(&nth.to_le_bytes());
        Bytes::from(bytes)
    };
    // More than the sockets hold; a sender that waited would wait for ever, for the other side reads only after all is sent.
    let count = 3_000u32;
    for nth in 0..count {
        assert!(member.peers.send_at_once(TWO, vec![piece(nth)]));
    }
    let mut frames = Vec::new();
    while frames.len() < count as usize {
        frames.extend(envelope::read(&mut stream, &mut |_| Ok(())).unwrap());
    }
    assert!(frames.iter().enumerate().all(|(nth, frame)| *frame == piece(nth as u32)));
}

#[test]
fn an_envelope_larger_than_the_socket_buffers_arrives_whole() {
    let (a, b) = pair();
    let large: Vec<u8> = (0..24 * 1024 * 1024u32).map(|byte| (byte % 251) as u8).collect();
    let large = Bytes::from(large);
    assert!(a.peers.send(TWO, vec![large.clone(), Bytes::from_static(b"after")]));
    let frames = b.frames(ONE, 2);
    assert!(frames[0] == large, "the large frame came unchanged");
    assert_eq!(frames[1], "after");
}

#[test]
fn strangers_are_turned_away_while_members_talk() {
    let (a, b) = pair();
    let mut garbage = TcpStream::connect(a.address).unwrap();
    garbage.write_all(&[b'x'; 64]).unwrap();
    wait_closed(&mut garbage);

    let good = Hello { cluster: CLUSTER, from: TWO, to: ONE };
    let mut damaged = good.encode();
    damaged[20] ^= 1;
    let mut garbage = TcpStream::connect(a.address).unwrap();
    garbage.write_all(&damaged).unwrap();
    wait_closed(&mut garbage);

    for (hello, wanted) in [
        (Hello { cluster: ClusterId(78), ..good }, Verdict::WrongCluster),
        (Hello { to: THREE, ..good }, Verdict::WrongMember),
        (Hello { from: THREE, ..good }, Verdict::UnknownMember),
        (Hello { from: ONE, ..good }, Verdict::UnknownMember),
    ] {
        let (mut stream, verdict) = a.dial_as(hello);
        assert_eq!(verdict, wanted as u8, "{hello:?}");
        wait_closed(&mut stream);
    }

    let mut future = good.encode();
    future[8] = 9;
    let mut stream = TcpStream::connect(a.address).unwrap();
    stream.write_all(&future).unwrap();
    let mut answer = [0; 3];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [Verdict::UnsupportedVersion as u8, 1, 0], "with the version that we speak");

    assert!(b.peers.send(ONE, numbered(TWO, 3)));
    assert_eq!(a.frames(TWO, 3), numbered(TWO, 3));
}

/// Members prove nothing here, so their addresses are all that tells them from others.
#[test]
fn an_open_cluster_takes_no_stream_from_an_address_that_is_no_members() {
    let hello = Hello { cluster: CLUSTER, from: TWO, to: ONE };
    // What is dialled from 127.0.0.1 comes from there, wherever on this machine it goes.
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], 1));
    let here = SocketAddr::from(([127, 0, 0, 1], 1));
    for (trusts_this_machine, listed, wanted) in [
        (false, &[(TWO, elsewhere)][..], Verdict::OtherAddress),
        (false, &[(TWO, here)], Verdict::Welcome),
        // Another member is there: which of several addresses a machine uses is its own choice.
        (false, &[(TWO, elsewhere), (THREE, here)], Verdict::Welcome),
        (true, &[(TWO, elsewhere)], Verdict::Welcome),
    ] {
        let member = start_trusting(trusts_this_machine, ONE, bind(), listed, Timing::default());
        let (mut stream, verdict) = member.dial_as(hello);
        assert_eq!(verdict, wanted as u8, "{trusts_this_machine} {listed:?}");
        if wanted == Verdict::OtherAddress {
            wait_closed(&mut stream);
        }
    }
}

/// Where two regions share no secret, the same holds for the nodes of the other region.
#[test]
fn an_open_cluster_takes_no_stream_of_a_region_from_an_address_that_is_none_of_its_nodes() {
    const ELSEWHERE: ClusterId = ClusterId(99);
    let hello = Hello { cluster: ELSEWHERE, from: THREE, to: ONE };
    for (address, wanted) in [("127.0.0.2:1", Verdict::OtherAddress), ("127.0.0.1:1", Verdict::Welcome)] {
        // A member of this cluster is at the address from which the test dials.
        let here = SocketAddr::from(([127, 0, 0, 1], 1));
        let member = start_trusting(false, ONE, bind(), &[(TWO, here)], Timing::default());
        let deliver: Deliver = Arc::new(|_| Ok(()));
        let address = address.to_owned();
        let node = RegionNode { cluster: ELSEWHERE, region: "elsewhere".to_owned(), id: THREE, address };
        member.peers.set_region_nodes(std::slice::from_ref(&node), &deliver).unwrap();
        assert_eq!(member.dial_as(hello).1, wanted as u8, "{}", node.address);
    }
}

#[test]
fn a_dialler_that_is_turned_away_tries_again_and_nothing_is_connected() {
    let two = bind();
    let member = start(ONE, bind(), &[(TWO, two.local_addr().unwrap())]);
    for _ in 0..3 {
        let (mut stream, _) = two.accept().unwrap();
        let mut hello = [0; handshake::HELLO_BYTES];
        stream.read_exact(&mut hello).unwrap();
        stream.write_all(&[Verdict::WrongCluster as u8, 1, 0]).unwrap();
        wait_closed(&mut stream);
    }
    assert!(!member.peers.connected(TWO));
    assert!(!member.peers.send(TWO, numbered(ONE, 1)));
    assert_eq!(member.peers.counters()[0].1.frames_refused, 1);
    assert_eq!(member.events.try_recv(), Err(mpsc::TryRecvError::Empty), "a peer never seen is not lost");
}

#[test]
fn a_damaged_envelope_closes_the_stream_and_the_next_stream_works() {
    let member = alone_with(Timing::default());
    let mut stream = member.dial_as_two();
    stream.write_all(&envelope_of(&["first"])).unwrap();
    assert_eq!(member.frames(TWO, 1), ["first"]);
    let mut damaged = envelope_of(&["damaged"]);
    *damaged.last_mut().unwrap() ^= 0x10;
    stream.write_all(&damaged).unwrap();
    stream.write_all(&envelope_of(&["unheard"])).unwrap();
    wait_closed(&mut stream);
    assert_eq!(member.next(), PeerEvent::Damaged { peer: TWO });
    assert_eq!(member.next(), PeerEvent::Lost { peer: TWO });

    let mut stream = member.dial_as_two();
    stream.write_all(&envelope_of(&["after"])).unwrap();
    assert_eq!(member.frames(TWO, 1), ["after"]);
}

#[test]
fn a_newer_stream_of_the_same_peer_replaces_the_older_without_a_loss() {
    let member = alone_with(Timing::default());
    let mut older = member.dial_as_two();
    older.write_all(&envelope_of(&["older"])).unwrap();
    assert_eq!(member.frames(TWO, 1), ["older"]);
    let mut newer = member.dial_as_two();
    wait_closed(&mut older);
    newer.write_all(&envelope_of(&["newer"])).unwrap();
    assert_eq!(member.frames(TWO, 1), ["newer"], "`frames` accepts no loss on the way");
}

#[test]
fn a_peer_that_goes_away_is_lost_at_once_and_once_and_is_found_again_on_the_same_port() {
    let (a, b) = pair();
    let at_b = b.address;
    assert!(b.peers.send(ONE, numbered(TWO, 1)));
    assert_eq!(a.frames(TWO, 1), numbered(TWO, 1), "both streams are up");
    for _ in 0..3 {
        assert!(a.peers.connected(TWO));
        a.peers.send(TWO, numbered(ONE, 10));
    }
    let start_of_loss = Instant::now();
    b.peers.stop();
    assert_eq!(a.next(), PeerEvent::Lost { peer: TWO });
    assert!(
        start_of_loss.elapsed() < Timing::default().silence,
        "noticed by the end of the stream, not by silence"
    );

    let again = start(TWO, rebind(at_b), &[(ONE, a.address)]);
    assert_eq!(a.next(), PeerEvent::Connected { peer: TWO }, "and no second loss before it");
    again.wait_for(PeerEvent::Connected { peer: ONE });
    assert!(a.peers.send(TWO, numbered(ONE, 5)));
    assert_eq!(again.frames(ONE, 5), numbered(ONE, 5), "nothing queued for the former stream comes");
}

#[test]
fn a_ticket_ends_with_its_stream() {
    let (a, b) = pair();
    let ticket = a.peers.ticket(TWO).unwrap();
    let later = || Instant::now() + PATIENCE;
    assert_eq!(a.peers.send_bulk(ticket, Bytes::from_static(b"bulk"), later()), Ok(()));
    assert_eq!(b.frames(ONE, 1), ["bulk"]);
    let at_b = b.address;
    b.peers.stop();
    a.wait_for(PeerEvent::Lost { peer: TWO });
    let _again = start(TWO, rebind(at_b), &[(ONE, a.address)]);
    a.wait_for(PeerEvent::Connected { peer: TWO });
    assert_eq!(a.peers.send_bulk(ticket, Bytes::from_static(b"bulk"), later()), Err(BulkError::Lost));
    assert_ne!(a.peers.ticket(TWO), Some(ticket));
}

#[test]
fn small_frames_pass_ahead_of_bulk() {
    const CHUNKS: usize = 64;
    /// What may be under way: a window, the chunk that overfills it, and one in the hands of the receiver.
    const AHEAD: usize = 1024 * 1024 / SNAPSHOT_CHUNK_BYTES + 2;
    let (a, b) = (bind(), bind());
    let (at_a, at_b) = (a.local_addr().unwrap(), b.local_addr().unwrap());
    let a = start(ONE, a, &[(TWO, at_b)]);
    // The receiver is stuck until the gate opens, as one with a slow disk is.
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let (sender, arrivals) = mpsc::channel();
    let hold = gate.clone();
    let deliver = Arc::new(move |event| {
        let PeerEvent::Frames { frames, .. } = event else { return Ok(()) };
        drop(hold.1.wait_while(hold.0.lock().unwrap(), |open| !*open).unwrap());
        for frame in frames {
            let _ = sender.send(frame.len());
        }
        Ok(())
    });
    let params = PeerParams {
        cluster: CLUSTER,
        me: TWO,
        listen: Some(b),
        peers: vec![(ONE, at_a.to_string())],
        timing: Timing::default(),
        security: Arc::new(SharedPeerAuth::new(PeerAuth::open())),
        on_round_trip: unheard(),
        on_question: unasked(),
        trusts_this_machine: true,
        audit: None,
    };
    let b = Peers::start(params, deliver).unwrap();
    a.wait_for(PeerEvent::Connected { peer: TWO });

    let ticket = a.peers.ticket(TWO).unwrap();
    let chunk = Bytes::from(vec![9; SNAPSHOT_CHUNK_BYTES]);
    let mut queued = 0;
    while a.peers.send_bulk(ticket, chunk.clone(), Instant::now() + Duration::from_secs(1)).is_ok() {
        queued += 1;
        assert!(queued < CHUNKS, "bulk is held back when the receiver is stuck");
    }
    assert!(a.peers.send(TWO, vec![Bytes::from_static(b"heartbeat")]));
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    let order: Vec<usize> = (0..=queued).map(|_| arrivals.recv_timeout(PATIENCE).unwrap()).collect();
    let place = order.iter().position(|length| *length == 9).expect("the heartbeat came");
    assert!(place <= AHEAD, "{place} chunks of {queued} came before the heartbeat");
    assert!(place < queued, "it passed chunks that were queued before it");
    b.stop();
}

#[test]
fn half_open_connections_are_bounded_and_time_out() {
    let timing = Timing { handshake: Duration::from_secs(3), ..Timing::default() };
    let member = alone_with(timing);
    let mut silent: Vec<TcpStream> =
        (0..HALF_OPEN_MAX + 4).map(|_| TcpStream::connect(member.address).unwrap()).collect();
    let start = Instant::now();
    for stream in &mut silent[..4] {
        wait_closed(stream);
    }
    let evicted = start.elapsed();
    let mut stream = member.dial_as_two();
    stream.write_all(&envelope_of(&["a peer gets through"])).unwrap();
    assert_eq!(member.frames(TWO, 1), ["a peer gets through"]);
    for stream in &mut silent {
        wait_closed(stream);
    }
    assert!(evicted < timing.handshake, "the oldest made place before any timeout");
    assert!(start.elapsed() >= timing.handshake, "the others had their time");
}

#[test]
fn a_hello_that_drips_in_wins_no_time() {
    let timing = Timing { handshake: Duration::from_millis(200), ..Timing::default() };
    let member = alone_with(timing);
    let mut stream = TcpStream::connect(member.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let hello = Hello { cluster: CLUSTER, from: TWO, to: ONE }.encode();
    // Each byte comes in good time; all of them would take four times the handshake's.
    let closed = hello.iter().any(|byte| {
        let sent = stream.write_all(&[*byte]);
        let heard = stream.read(&mut [0; 3]);
        sent.is_err() || !matches!(heard, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    });
    assert!(closed, "the connection was closed before the hello was complete");
    assert_eq!(member.events.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
}

#[test]
fn a_silent_stream_is_given_up_in_both_directions() {
    let timing =
        Timing { ping: Duration::from_millis(50), silence: Duration::from_millis(300), ..Timing::default() };
    let two = bind();
    let member = start_with(ONE, bind(), &[(TWO, two.local_addr().unwrap())], timing);
    let _never_acknowledges = welcome(&two);
    assert_eq!(member.next(), PeerEvent::Connected { peer: TWO });
    assert_eq!(member.next(), PeerEvent::Lost { peer: TWO });
    let _dialled_again = welcome(&two);
    assert_eq!(member.next(), PeerEvent::Connected { peer: TWO });

    let member = alone_with(timing);
    let mut never_pings = member.dial_as_two();
    wait_closed(&mut never_pings);
    assert_eq!(member.next(), PeerEvent::Lost { peer: TWO });
}

#[test]
fn pings_keep_an_idle_stream() {
    let timing =
        Timing { ping: Duration::from_millis(20), silence: Duration::from_secs(2), ..Timing::default() };
    let (a, b) = (bind(), bind());
    let (at_a, at_b) = (a.local_addr().unwrap(), b.local_addr().unwrap());
    let a = start_with(ONE, a, &[(TWO, at_b)], timing);
    let _b = start_with(TWO, b, &[(ONE, at_a)], timing);
    a.wait_for(PeerEvent::Connected { peer: TWO });
    let quiet = a.events.recv_timeout(timing.silence * 3 / 2);
    assert_eq!(quiet, Err(RecvTimeoutError::Timeout), "nothing was lost");
    let counters = a.peers.counters()[0].1;
    assert!(counters.bytes_sent > 0 && counters.bytes_received > 0, "{counters:?}");
    assert_eq!((counters.frames_sent, counters.connects), (0, 1));
}

#[test]
fn stopping_joins_every_thread_and_tells_no_loss() {
    let listen = bind();
    let address = listen.local_addr().unwrap();
    let other = start(TWO, bind(), &[(ONE, address)]);
    let silent = bind();
    let (sender, events) = mpsc::channel();
    let deliver: Deliver = Arc::new(move |event| {
        let _ = sender.send(event);
        Ok(())
    });
    let peers = vec![(TWO, other.address.to_string()), (THREE, silent.local_addr().unwrap().to_string())];
    let timing = Timing::default();
    let on_round_trip = unheard();
    let on_question = unasked();
    let params = PeerParams {
        cluster: CLUSTER,
        me: ONE,
        listen: Some(listen),
        peers,
        timing,
        security: Arc::new(SharedPeerAuth::new(PeerAuth::open())),
        on_round_trip,
        on_question,
        trusts_this_machine: true,
        audit: None,
    };
    let one = Peers::start(params, deliver.clone()).unwrap();
    other.wait_for(PeerEvent::Connected { peer: ONE });
    assert_eq!(events.recv_timeout(PATIENCE), Ok(PeerEvent::Connected { peer: TWO }));
    let mut half_open = TcpStream::connect(address).unwrap();
    one.stop();
    assert_eq!(Arc::strong_count(&deliver), 1, "no thread is left that could deliver");
    wait_closed(&mut half_open);
    drop(deliver);
    assert_eq!(events.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected), "no loss was told");
    rebind(address);
}

#[test]
fn a_node_of_another_cluster_is_welcome_while_it_is_listed_and_heard_apart() {
    const ELSEWHERE: ClusterId = ClusterId(99);
    let (one, two) = pair();
    let hello = Hello { cluster: ELSEWHERE, from: THREE, to: ONE };
    let (_, verdict) = one.dial_as(hello);
    assert_eq!(verdict, Verdict::WrongCluster as u8, "no member knows it");

    let there = bind();
    let (sender, heard) = mpsc::channel();
    let deliver: Deliver = Arc::new(move |event| {
        let _ = sender.send(event);
        Ok(())
    });
    let address = there.local_addr().unwrap().to_string();
    let stranger = RegionNode { cluster: ELSEWHERE, region: "elsewhere".to_owned(), id: THREE, address };
    one.peers.set_region_nodes(std::slice::from_ref(&stranger), &deliver).unwrap();
    let _dialled = welcome(&there);
    assert_eq!(heard.recv_timeout(PATIENCE), Ok(PeerEvent::Connected { peer: THREE }));
    let (mut stream, verdict) = one.dial_as(hello);
    assert_eq!(verdict, Verdict::Welcome as u8);
    let (_, verdict) = one.dial_as(Hello { cluster: CLUSTER, ..hello });
    assert_eq!(verdict, Verdict::UnknownMember as u8, "it is no member");
    stream.write_all(&envelope_of(&["from afar"])).unwrap();
    let frames = vec![Bytes::from_static(b"from afar")];
    assert_eq!(heard.recv_timeout(PATIENCE), Ok(PeerEvent::Frames { from: THREE, frames }));

    // Changes of the region nodes leave the members alone, and the other way round.
    let members = vec![(TWO, two.address.to_string())];
    one.peers.set_peers(members).unwrap();
    assert!(one.peers.connected(THREE));
    one.peers.set_region_nodes(&[], &deliver).unwrap();
    wait_closed(&mut stream);
    assert!(one.peers.connected(TWO) && !one.peers.connected(THREE));
    assert_eq!(one.dial_as(hello).1, Verdict::WrongCluster as u8, "it was evicted");
}
