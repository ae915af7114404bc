use super::*;
use base::LeaseId;

const LOCK: Bytes = Bytes::from_static(b"lock");

fn begin(is_try: bool) -> LockCall {
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
    let (call, command) = LockCall::begin(acquire.clone());
    assert_eq!(command, Command::LockAcquire(acquire));
    call
}

fn lock(acquired: bool) -> LockCallEvent {
    let reply = LockReply {
        key: Bytes::from_static(b"lock/1"),
        token: Revision(5),
        acquired,
        ahead: u64::from(!acquired),
        holder: None,
    };
    LockCallEvent::Answered(Ok(Reply { revision: Revision(6), body: Body::Lock(reply) }))
}

fn left(holding: Option<i64>) -> LockCallEvent {
    let body = Body::Left { holding: holding.map(Revision) };
    LockCallEvent::Answered(Ok(Reply { revision: Revision(9), body }))
}

fn leave(keeps_held: bool) -> Command {
    Command::LockLeave(Leave { key: Bytes::from_static(b"lock/1"), call: 7, keeps_held })
}

fn is_held(next: &LockCallStep) -> bool {
    matches!(next, LockCallStep::End(LockCallOutcome::Held(held)) if held.token == Revision(5))
}

#[test]
fn a_free_lock_is_held_with_the_first_answer() {
    assert!(is_held(&begin(false).step(lock(true))));
    assert!(is_held(&begin(true).step(lock(true))));
}

#[test]
fn who_only_tries_does_not_wait() {
    assert!(matches!(begin(true).step(lock(false)), LockCallStep::End(LockCallOutcome::NotHeld(_))));
}

#[test]
fn who_waits_is_told_of_its_turn_or_of_the_loss_of_its_place() {
    let mut call = begin(false);
    assert!(
        matches!(call.step(lock(false)), LockCallStep::Wait(wait) if wait.token == Revision(5) && wait.call == 7)
    );
    assert!(is_held(&call.step(LockCallEvent::WaitEnded(WaitOutcome::Granted { revision: Revision(8) }))));
    let mut call = begin(false);
    call.step(lock(false));
    assert_eq!(
        call.step(LockCallEvent::WaitEnded(WaitOutcome::Gone)),
        LockCallStep::End(LockCallOutcome::Refused(Code::LockLost))
    );
}

#[test]
fn who_runs_out_of_time_leaves_the_queue_unless_the_lock_has_come() {
    for (holding, held) in [(None, false), (Some(5), true)] {
        let mut call = begin(false);
        call.step(lock(false));
        assert_eq!(call.step(LockCallEvent::TimedOut), LockCallStep::StopWaiting(leave(true)));
        assert_eq!(is_held(&call.step(left(holding))), held);
    }
}

#[test]
fn time_that_runs_out_on_the_way_is_remembered() {
    let mut call = begin(false);
    assert_eq!(call.step(LockCallEvent::TimedOut), LockCallStep::Stay);
    assert_eq!(call.step(lock(false)), LockCallStep::Propose(leave(true)));
    let mut call = begin(false);
    call.step(LockCallEvent::TimedOut);
    assert!(is_held(&call.step(lock(true))));
}

#[test]
fn a_cancelled_call_leaves_from_wherever_it_is() {
    let mut waiting = begin(false);
    waiting.step(lock(false));
    assert_eq!(waiting.step(LockCallEvent::Cancelled), LockCallStep::StopWaiting(leave(false)));
    assert_eq!(waiting.step(left(None)), LockCallStep::End(LockCallOutcome::Abandoned));

    for acquired in [false, true] {
        let mut asking = begin(false);
        assert_eq!(
            asking.step(LockCallEvent::Cancelled),
            LockCallStep::Stay,
            "what became of the request must be known first"
        );
        assert_eq!(asking.step(lock(acquired)), LockCallStep::Propose(leave(false)));
        assert_eq!(asking.step(left(None)), LockCallStep::End(LockCallOutcome::Abandoned));
    }

    let mut leaving = begin(false);
    leaving.step(lock(false));
    leaving.step(LockCallEvent::TimedOut);
    assert_eq!(leaving.step(LockCallEvent::Cancelled), LockCallStep::Stay);
    assert_eq!(leaving.step(left(Some(5))), LockCallStep::Propose(leave(false)), "the client has gone");
    assert_eq!(leaving.step(left(None)), LockCallStep::End(LockCallOutcome::Abandoned));
}

#[test]
fn an_answer_that_was_lost_is_asked_for_again() {
    let mut call = begin(false);
    let lost = || LockCallEvent::Answered(Err(Code::Timeout));
    assert!(matches!(call.step(lost()), LockCallStep::Propose(Command::LockAcquire(_))));
    call.step(lock(false));
    call.step(LockCallEvent::Cancelled);
    assert_eq!(call.step(lost()), LockCallStep::Propose(leave(false)));
    assert_eq!(
        call.step(LockCallEvent::Answered(Err(Code::TooManyRequests))),
        LockCallStep::Propose(leave(false))
    );
    assert_eq!(call.step(left(None)), LockCallStep::End(LockCallOutcome::Abandoned));
}

#[test]
fn a_refusal_ends_the_call() {
    let refused = || LockCallEvent::Answered(Err(Code::LeaseNotFound));
    assert_eq!(
        begin(false).step(refused()),
        LockCallStep::End(LockCallOutcome::Refused(Code::LeaseNotFound))
    );
}
