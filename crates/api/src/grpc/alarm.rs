//! The alarms of etcd's API as those of the state machine, and back.
//! A request goes in; a command, and later its answer's alarms, come out. `NOSPACE` may be raised by hand, `CORRUPT` only by members.

use base::NodeId;
use coord::reply::Body;
use coord::{Alarm, AlarmCommand, AlarmKind};
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::{AlarmMember, AlarmRequest, AlarmType};
use tonic::Status;

#[derive(Debug)]
pub struct AlarmQuery {
    command: AlarmCommand,
    /// Only alarms of this kind are listed; none lists all.
    kind: AlarmType,
}

/// Refuses what this version does not know; a member of zero is taken as it is, as in etcd.
pub fn parse(request: &AlarmRequest) -> Result<AlarmQuery, Status> {
    let unknown = || Status::unimplemented("this alarm is not kept by this version");
    let kind = AlarmType::try_from(request.alarm).map_err(|_| unknown())?;
    let alarm = |kind| Alarm { kind, member: NodeId(request.member_id), automatic: false };
    let command = match (AlarmAction::try_from(request.action).map_err(|_| unknown())?, kind) {
        (AlarmAction::Get, _) => AlarmCommand::List,
        (AlarmAction::Activate, AlarmType::Nospace) => AlarmCommand::Raise(alarm(AlarmKind::NoSpace)),
        (AlarmAction::Deactivate, AlarmType::Nospace) => AlarmCommand::Clear(alarm(AlarmKind::NoSpace)),
        (AlarmAction::Deactivate, AlarmType::Corrupt) => AlarmCommand::Clear(alarm(AlarmKind::Corrupt)),
        // Nothing of that kind can be raised, so there is nothing to clear.
        (AlarmAction::Deactivate, _) => AlarmCommand::List,
        (AlarmAction::Activate, _) => return Err(unknown()),
    };
    Ok(AlarmQuery { command, kind })
}

impl AlarmQuery {
    pub fn command(&self) -> AlarmCommand {
        self.command
    }

    pub fn render(&self, body: &Body) -> Vec<AlarmMember> {
        let Body::Alarms(alarms) = body else { return vec![] };
        let told = alarms.iter().map(|alarm| AlarmMember {
            member_id: alarm.member.0,
            alarm: match alarm.kind {
                AlarmKind::NoSpace => AlarmType::Nospace as i32,
                AlarmKind::Corrupt => AlarmType::Corrupt as i32,
            },
        });
        told.filter(|alarm| self.kind == AlarmType::None || alarm.alarm == self.kind as i32).collect()
    }
}

/// As etcd tells it among the errors of a status.
pub fn describe_no_space(member: NodeId) -> String {
    format!("memberID:{} alarm:NOSPACE ", member.0)
}
