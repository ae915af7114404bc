use super::*;
use base::LeaseId;

const LOCK: Bytes = Bytes::from_static(b"lock");

fn begin(is_try: bool) -> Call {
    let acquire = Acquire {
        name: LOCK,
        lease: LeaseId(1),
        value: Bytes::new(),
        holder: Bytes::new(),
        since: 0,
        call: 7,
        is_try,
        replaces_value: false,
    };
    let (call, command) = Call::begin(acquire.clone());
    assert_eq!(command, Command::LockAcquire(acquire));
    call
}

fn lock(acquired: bool) -> Event {
    let reply = LockReply {
        key: Bytes::from_static(b"lock/1"),
        token: Revision(5),
        acquired,
        ahead: u64::from(!acquired),
        holder: None,
    };
    Event::Answered(Ok(Reply { revision: Revision(6), body: Body::Lock(reply) }))
}

fn left(holding: Option<i64>) -> Event {
    let body = Body::Left { holding: holding.map(Revision) };
    Event::Answered(Ok(Reply { revision: Revision(9), body }))
}

fn leave(keeps_held: bool) -> Command {
    Command::LockLeave(Leave { key: Bytes::from_static(b"lock/1"), call: 7, keeps_held })
}

fn is_held(next: &Next) -> bool {
    matches!(next, Next::End(Outcome::Held(held)) if held.token == Revision(5))
}

#[test]
fn a_free_lock_is_held_with_the_first_answer() {
    assert!(is_held(&begin(false).step(lock(true))));
    assert!(is_held(&begin(true).step(lock(true))));
}

#[test]
fn who_only_tries_does_not_wait() {
    assert!(matches!(begin(true).step(lock(false)), Next::End(Outcome::NotHeld(_))));
}

#[test]
fn who_waits_is_told_of_its_turn_or_of_the_loss_of_its_place() {
    let mut call = begin(false);
    assert!(
        matches!(call.step(lock(false)), Next::Wait(wait) if wait.token == Revision(5) && wait.call == 7)
    );
    assert!(is_held(&call.step(Event::News(News::Granted { revision: Revision(8) }))));
    let mut call = begin(false);
    call.step(lock(false));
    assert_eq!(call.step(Event::News(News::Gone)), Next::End(Outcome::Refused(Code::LockLost)));
}

#[test]
fn who_runs_out_of_time_leaves_the_queue_unless_the_lock_has_come() {
    for (holding, held) in [(None, false), (Some(5), true)] {
        let mut call = begin(false);
        call.step(lock(false));
        assert_eq!(call.step(Event::TimedOut), Next::StopWaiting(leave(true)));
        assert_eq!(is_held(&call.step(left(holding))), held);
    }
}

#[test]
fn time_that_runs_out_on_the_way_is_remembered() {
    let mut call = begin(false);
    assert_eq!(call.step(Event::TimedOut), Next::Stay);
    assert_eq!(call.step(lock(false)), Next::Propose(leave(true)));
    let mut call = begin(false);
    call.step(Event::TimedOut);
    assert!(is_held(&call.step(lock(true))));
}

#[test]
fn a_cancelled_call_leaves_from_wherever_it_is() {
    let mut waiting = begin(false);
    waiting.step(lock(false));
    assert_eq!(waiting.step(Event::Cancelled), Next::StopWaiting(leave(false)));
    assert_eq!(waiting.step(left(None)), Next::End(Outcome::Abandoned));

    for acquired in [false, true] {
        let mut asking = begin(false);
        assert_eq!(
            asking.step(Event::Cancelled),
            Next::Stay,
            "what became of the request must be known first"
        );
        assert_eq!(asking.step(lock(acquired)), Next::Propose(leave(false)));
        assert_eq!(asking.step(left(None)), Next::End(Outcome::Abandoned));
    }

    let mut leaving = begin(false);
    leaving.step(lock(false));
    leaving.step(Event::TimedOut);
    assert_eq!(leaving.step(Event::Cancelled), Next::Stay);
    assert_eq!(leaving.step(left(Some(5))), Next::Propose(leave(false)), "the client has gone");
    assert_eq!(leaving.step(left(None)), Next::End(Outcome::Abandoned));
}

#[test]
fn an_answer_that_was_lost_is_asked_for_again() {
    let mut call = begin(false);
    let lost = || Event::Answered(Err(Code::Timeout));
    assert!(matches!(call.step(lost()), Next::Propose(Command::LockAcquire(_))));
    call.step(lock(false));
    call.step(Event::Cancelled);
    assert_eq!(call.step(lost()), Next::Propose(leave(false)));
    assert_eq!(call.step(Event::Answered(Err(Code::TooManyRequests))), Next::Propose(leave(false)));
    assert_eq!(call.step(left(None)), Next::End(Outcome::Abandoned));
}

#[test]
fn a_refusal_ends_the_call() {
    let refused = || Event::Answered(Err(Code::LeaseNotFound));
    assert_eq!(begin(false).step(refused()), Next::End(Outcome::Refused(Code::LeaseNotFound)));
}
