//! The BackupService: rows of this node for a backup of the data plane, and records of a backup put back as writes. Requests go
//! in, requests to the mesh come out, and back. Only root may, for a backup shows everything.

mod collections;

use crate::audit;
use crate::grpc::{call_context, refusal};
use base::Code;
use collections::saved_collection;
use mesh::namespaces::{self, Namespace, Namespaces, Policy};
use mesh::{
    Attributes, ElementsPage, ElementsQuery, ElementsRead, Key, Kind, ListRows, MeshCall, MovePhase, NotDone,
    Op, Partition, Read, Record, RestoreRun, Topology, Write, joined_copies, restoring_write,
    saved_key_of_row,
};
use proto::althing::backup::v1 as wire;
use proto::althing::backup::v1::backup_service_server::BackupService;
use proto::althing::backup::v1::restored_record::Outcome;
use server::{Handle, RequiredAccess};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

/// A few hundred small records, or one that is as large as records get, in several copies.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Records of one request.
const RECORDS_MAX: usize = 256;
/// How long a node may take to learn of a new namespace.
const HEARD_MAX: Duration = Duration::from_secs(5);
const HEARD_POLL: Duration = Duration::from_millis(5);

pub struct BackupApi {
    handle: Handle,
}

impl BackupApi {
    pub fn new(handle: Handle) -> BackupApi {
        BackupApi { handle }
    }

    async fn check_root(&self, metadata: &MetadataMap) -> Result<(), Status> {
        let handle = call_context::admit(&self.handle, metadata).await?;
        // A data-only node goes by what it knows.
        let permitted = if handle.is_data_only() {
            handle.auth().permit_here(RequiredAccess::Root).await
        } else {
            handle.auth().permit(RequiredAccess::Root).await
        };
        permitted.map_err(refusal::render)
    }

    /// The number of the namespace, and whether it is new. It is made if there is none, unless nothing is to be changed.
    async fn ensure_namespace(
        &self,
        given: &wire::NamespaceSettings,
        dry_run: bool,
    ) -> Result<(u32, bool), Code> {
        let wanted = parse_settings(given).ok_or(Code::BadRequest)?;
        let id = namespaces::id_of(&given.name);
        let add = |all: &mut Namespaces| {
            let is_new = all.get(&given.name).is_none();
            if is_new && !dry_run {
                all.set(&given.name, wanted, self.handle.mesh().topology().region)?;
            }
            Ok::<bool, Code>(is_new)
        };
        let is_new = self.handle.documents().update(add).await?;
        // A namespace that is not new may have been agreed on a moment ago: by another request, or with coord's restored state.
        if !(is_new && dry_run) {
            self.wait_until_received(id).await?;
        }
        Ok((id, is_new))
    }

    async fn wait_until_received(&self, id: u32) -> Result<(), Code> {
        let begun = Instant::now();
        while self.handle.mesh().topology().copies(id).is_none() {
            if begun.elapsed() > HEARD_MAX {
                return Err(Code::NotSeenHere);
            }
            tokio::time::sleep(HEARD_POLL).await;
        }
        Ok(())
    }

    /// What is under each key now.
    async fn present(&self, keys: Vec<Key>) -> Vec<Result<Option<Record>, Code>> {
        let mesh = self.handle.mesh();
        let ask = |key| mesh.request(Read { key, r: None }.into_request(), None);
        let asked: Vec<_> = keys.into_iter().map(ask).collect();
        let mut present = Vec::with_capacity(asked.len());
        for reply in asked {
            present.push(match reply.await {
                Ok(reply) => {
                    let found = Read::outcome(reply).map_err(|_| Code::TooFewReplicas);
                    found.map(|found| found.map(|record| *record))
                }
                Err(code) => Err(code),
            });
        }
        present
    }

    async fn read_elements(
        &self,
        key: Key,
        query: ElementsQuery,
        r: Option<u8>,
    ) -> Result<ElementsPage, NotDone> {
        let request = ElementsRead { key, query, r }.into_request();
        ElementsRead::outcome(self.handle.mesh().request(request, None).await.map_err(NotDone::Refused)?)
    }

    async fn write_all(&self, writes: Vec<Write>) -> Result<Vec<Result<(), Code>>, Code> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let replies = self.handle.mesh().call(writes, None).await?;
        Ok(replies.into_iter().map(outcome_of).collect())
    }

    async fn restore_records(
        &self,
        plan: Vec<Planned>,
        dry_run: bool,
    ) -> Result<Vec<wire::RestoredRecord>, Code> {
        let mut told: Vec<wire::RestoredRecord> = plan.iter().map(Planned::to_wire).collect();
        if dry_run {
            return Ok(told);
        }
        let clear = plan.iter().filter_map(|planned| planned.delete.clone()).collect();
        // What could not be deleted is refused below, where it is found again.
        self.write_all(clear).await?;
        let (nths, writes): (Vec<usize>, Vec<Write>) =
            plan.into_iter().enumerate().filter_map(|(nth, planned)| Some((nth, planned.write?))).unzip();
        for (nth, outcome) in nths.into_iter().zip(self.write_all(writes).await?) {
            if let Err(code) = outcome {
                told[nth] = refused(code);
            }
        }
        Ok(told)
    }
}

/// The write that restores one record.
struct Planned {
    outcome: Result<Outcome, Code>,
    /// First, if something is there that what was saved would be mixed with.
    delete: Option<Write>,
    write: Option<Write>,
    /// That it puts back.
    elements: u64,
    /// No more elements of this collection are wanted.
    is_other: bool,
}

impl Planned {
    fn nothing(outcome: Result<Outcome, Code>) -> Planned {
        Planned { outcome, delete: None, write: None, elements: 0, is_other: false }
    }

    fn of(key: &Key, saved: &Record, present: Option<&Record>, replace: bool, run: RestoreRun) -> Planned {
        let write = Some(restoring_write(key.clone(), saved, run));
        let Some(present) = present else {
            return Planned { write, ..Planned::nothing(Ok(Outcome::Restored)) };
        };
        if !replace {
            return Planned::nothing(Ok(Outcome::Kept));
        }
        let fits = present.kind == saved.kind && saved.kind.is_last_write_wins();
        let delete = (!fits).then(|| delete_of(key, present.kind));
        Planned { delete, write, ..Planned::nothing(Ok(Outcome::Replaced)) }
    }

    fn to_wire(&self) -> wire::RestoredRecord {
        match self.outcome {
            Ok(outcome) => wire::RestoredRecord {
                outcome: outcome as i32,
                message: String::new(),
                elements: self.elements,
                is_other: self.is_other,
            },
            Err(code) => refused(code),
        }
    }
}

#[tonic::async_trait]
impl BackupService for BackupApi {
    async fn describe(
        &self,
        request: Request<wire::DescribeRequest>,
    ) -> Result<Response<wire::DescribeResponse>, Status> {
        self.check_root(request.metadata()).await?;
        let mesh = self.handle.mesh();
        let (topology, status) = (mesh.topology(), mesh.status());
        let all = self.handle.documents().read::<Namespaces>().await;
        let (_, all) = all.map_err(|error| refusal::render(error.into()))?;
        let identity = self.handle.identity();
        Ok(Response::new(wire::DescribeResponse {
            cluster_id: identity.cluster.0,
            node: identity.member.0,
            epoch: topology.epoch.0,
            is_serving: status.machine.as_ref().is_some_and(|machine| machine.is_serving),
            now_ms: now_ms(),
            stored_bytes: status.store_bytes,
            nodes: topology.members().iter().map(|member| member.node.0).collect(),
            shards: shards_of(&topology),
            namespaces: all.iter().map(|(name, namespace)| render_settings(name, namespace)).collect(),
            revision: self.handle.status().revision.0,
        }))
    }

    async fn rows(
        &self,
        request: Request<wire::RowsRequest>,
    ) -> Result<Response<wire::RowsResponse>, Status> {
        self.check_root(request.metadata()).await?;
        let from = request.into_inner().from;
        let page = self.handle.mesh().call(ListRows { from }, None).await.map_err(refusal::render)?;
        Ok(Response::new(wire::RowsResponse {
            epoch: page.epoch.0,
            rows: page.rows.into_iter().map(|(key, value)| wire::Row { key, value }).collect(),
            next: page.next.unwrap_or_default(),
        }))
    }

    async fn elements(
        &self,
        request: Request<wire::ElementsRequest>,
    ) -> Result<Response<wire::ElementsResponse>, Status> {
        self.check_root(request.metadata()).await?;
        self.page_of_elements(request.into_inner()).await.map(Response::new).map_err(refusal::render)
    }

    async fn restore(
        &self,
        request: Request<wire::RestoreRequest>,
    ) -> Result<Response<wire::RestoreResponse>, Status> {
        self.check_root(request.metadata()).await?;
        let wire::RestoreRequest { run, namespace, records, replace, dry_run } = request.into_inner();
        let namespace = namespace.unwrap_or_default();
        audit::note_target("namespace", &namespace.name);
        if records.len() > RECORDS_MAX {
            return Err(refusal::render(Code::TooManyOps));
        }
        let ensured = self.ensure_namespace(&namespace, dry_run).await;
        let (id, is_new) = ensured.map_err(refusal::render)?;
        let run = RestoreRun { id: run, here: self.handle.mesh().topology().region };
        let keys: Vec<Key> = records.iter().map(|record| Key::new(id, &record.name)).collect();
        let present = if is_new && dry_run {
            keys.iter().map(|_| Ok(None)).collect()
        } else {
            self.present(keys.clone()).await
        };
        let mut plan = Vec::with_capacity(records.len());
        for ((record, key), present) in records.iter().zip(&keys).zip(present) {
            let present = present.map(|present| present.filter(|present| present.is_live(now_ms())));
            let planned = match (saved_collection(record), present) {
                (_, Err(code)) => Err(code),
                (Some(saved), Ok(present)) => self.plan_collection(key, saved, present, replace).await,
                (None, Ok(present)) => saved_record(record).map(|saved| match saved {
                    Some(saved) => Planned::of(key, &saved, present.as_ref(), replace, run),
                    None => Planned::nothing(Ok(Outcome::Gone)),
                }),
            };
            plan.push(planned.unwrap_or_else(|code| Planned::nothing(Err(code))));
        }
        let records = self.restore_records(plan, dry_run).await.map_err(refusal::render)?;
        Ok(Response::new(wire::RestoreResponse { records, namespace_is_new: is_new }))
    }
}

/// What the rows of a key come to; each must be one that holds a record.
fn saved_record(record: &wire::SavedRecord) -> Result<Option<Record>, Code> {
    if record.rows.is_empty() || record.rows.iter().any(|row| saved_key_of_row(&row.key).is_none()) {
        return Err(Code::BadRequest);
    }
    let copies: Vec<_> = record.rows.iter().map(|row| row.value.clone()).collect();
    joined_copies(&copies, now_ms())
}

fn delete_of(key: &Key, kind: Kind) -> Write {
    let (op, attributes) = (Op::Delete, Attributes::default());
    Write { key: key.clone(), kind, op, attributes, expect: None, w: None, sloppy: false }
}

fn outcome_of(reply: Result<Box<Record>, NotDone>) -> Result<(), Code> {
    reply.map(drop).map_err(NotDone::code)
}

fn refused(code: Code) -> wire::RestoredRecord {
    let message = code.message().to_owned();
    wire::RestoredRecord { outcome: Outcome::Refused as i32, message, elements: 0, is_other: true }
}

/// The nodes to read for each partition, by the number of copies.
fn shards_of(topology: &Topology) -> Vec<wire::Shard> {
    let placement = topology.placement();
    let shard = |partition: Partition, copies: u8| {
        let lists = match topology.phase(partition) {
            MovePhase::Still | MovePhase::Pending => &placement.now,
            MovePhase::Switched | MovePhase::Moved => &placement.next,
        };
        let nodes = lists.of(partition, copies.into()).iter().map(|node| node.0).collect();
        wire::Shard { partition: partition.0.into(), copies: copies.into(), nodes }
    };
    let of_copies = |copies| Partition::all().map(move |partition| (partition, copies));
    topology
        .copies_in_use()
        .into_iter()
        .flat_map(of_copies)
        .map(|(partition, copies)| shard(partition, copies))
        .collect()
}

fn render_settings(name: &str, namespace: Namespace) -> wire::NamespaceSettings {
    wire::NamespaceSettings {
        name: name.to_owned(),
        id: namespaces::id_of(name),
        copies: namespace.copies.into(),
        kind: (namespace.kind as u8).into(),
        policy: (namespace.policy as u8).into(),
    }
}

fn parse_settings(given: &wire::NamespaceSettings) -> Option<Namespace> {
    let kind = Kind::from_number(u8::try_from(given.kind).ok()?)?;
    let policy = Policy::ALL.into_iter().find(|policy| *policy as u32 == given.policy)?;
    namespaces::is_name(&given.name).then_some(Namespace {
        copies: u8::try_from(given.copies).ok()?,
        kind,
        policy,
    })
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64)
}
