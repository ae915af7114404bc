//! The alarms of etcd's API as those of the state machine, and back.
//! A request goes in; a command, and later its answer's alarms, come out.

use base::NodeId;
use coord::{Alarm, AlarmCommand, AlarmKind, AlarmOrigin};
use proto::etcdserverpb::alarm_request::AlarmAction;
use proto::etcdserverpb::{AlarmMember, AlarmRequest, AlarmType};
use tonic::Status;

#[derive(Debug)]
pub struct AlarmQuery {
    /// None for a change of nothing, which etcd answers without an alarm.
    command: Option<AlarmCommand>,
    /// Only alarms of this kind are listed; none lists all.
    kind: AlarmType,
}

/// Refuses what this version does not know; a member of zero is taken as it is, as in etcd.
pub fn parse(request: &AlarmRequest) -> Result<AlarmQuery, Status> {
    let unknown = || Status::unimplemented("this alarm is not kept by this version");
    let kind = AlarmType::try_from(request.alarm).map_err(|_| unknown())?;
    let alarm = |kind| Alarm { kind, member: NodeId(request.member_id), origin: AlarmOrigin::Client };
    let named = match kind {
        AlarmType::None => None,
        AlarmType::Nospace => Some(alarm(AlarmKind::NoSpace)),
        AlarmType::Corrupt => Some(alarm(AlarmKind::Corrupt)),
    };
    let command = match AlarmAction::try_from(request.action).map_err(|_| unknown())? {
        AlarmAction::Get => Some(AlarmCommand::List),
        AlarmAction::Activate => named.map(AlarmCommand::Raise),
        AlarmAction::Deactivate => named.map(AlarmCommand::Clear),
    };
    Ok(AlarmQuery { command, kind })
}

impl AlarmQuery {
    pub fn command(&self) -> Option<AlarmCommand> {
        self.command
    }

    pub fn render(&self, alarms: &[Alarm]) -> Vec<AlarmMember> {
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

/// As etcd tells them among the errors of a status.
pub fn describe_all(alarms: &[Alarm]) -> Vec<String> {
    let describe = |alarm: &Alarm| {
        let name = match alarm.kind {
            AlarmKind::NoSpace => "NOSPACE",
            AlarmKind::Corrupt => "CORRUPT",
        };
        format!("memberID:{} alarm:{name} ", alarm.member.0)
    };
    let mut told: Vec<String> = alarms.iter().map(describe).collect();
    told.dedup();
    told
}
